package advice

import "github.com/weblimit/weblimit/keyfuncs"

// lookFramework advises if a limit uses the client address of a framework that believes what clients say.
func (a *Advisor) lookFramework(r keyfuncs.Request) {
	if framework, ok := keyfuncs.As[keyfuncs.FrameworkAdvice](r); ok && a.readsFramework {
		if risk := framework.FrameworkRisk(); risk != "" {
			a.say(Framework, risk)
		}
	}
}
