package advice

import "github.com/weblimit/weblimit/keyfuncs"

// lookUnguarded advises if the adapter says that some requests do not pass the limiter.
func (a *Advisor) lookUnguarded(r keyfuncs.Request) {
	if adapter, ok := keyfuncs.As[keyfuncs.PlaceAdvice](r); ok {
		if problem := adapter.Unguarded(); problem != "" {
			a.say(Unguarded, problem)
		}
	}
}
