package advice

import (
	"sync/atomic"

	"github.com/weblimit/weblimit/keyfuncs"
)

// ConditionUnanswered is called if a condition of the limit has no answer for a request.
func (l *Limit) ConditionUnanswered(r keyfuncs.Request) {
	l.unrouted(r, "its condition on routes can't be answered", "the limit applies")
}

// UpperUnanswered is called if a condition of KeepFree or Classes has no answer for a request.
func (l *Limit) UpperUnanswered(r keyfuncs.Request) {
	l.unrouted(r, "the condition on routes of its KeepFree or Classes can't be answered", "requests are of the lower class")
}

// BypassUnanswered is called if a condition of Config.Bypass has no answer for a request.
func (a *Advisor) BypassUnanswered(c *keyfuncs.Condition, r keyfuncs.Request) {
	if a.routeDone(&a.bypassSaid) {
		return // asking again is for the log alone
	}
	reading := keyfuncs.Reading{Request: r}
	if c.Ask(&reading); reading.Repeated() == "" { // else the request is ambiguous, and it is not the place of the limiter
		a.unrouted(&a.bypassSaid, r, "Config.Bypass", "a condition on routes can't be answered", "it exempts nothing")
	}
}

// lookRoute advises if the limit's key contains the route, and that is not known.
func (l *Limit) lookRoute(r keyfuncs.Request) {
	if _, known := r.Route(); !known {
		l.unrouted(r, "the route in its key is not known", "requests share a bucket")
	}
}

// lookParam advises if the limit's key contains a parameter of the path that is not known.
func (l *Limit) lookParam(r keyfuncs.Request) {
	if name := l.Key.Unrouted(r); name != "" && !l.advisor.routeDone(&l.routeSaid) && !l.routeSaid.Swap(true) {
		l.advisor.write(Route, "limit "+l.Name+": the path parameter "+name+" of its key is not known where the limiter stands, or the route has none, so the key is missing; put the limiter on the route")
	}
}

func (l *Limit) unrouted(r keyfuncs.Request, what, so string) {
	if !l.routeSaid.Load() {
		l.advisor.unrouted(&l.routeSaid, r, "limit "+l.Name, what, so)
	}
}

// unrouted logs that a limit or a bypass needs the route, which is unknown at the limiter's
// place, unless said says that this was logged. The request may know where the limiter
// belongs; it says "" while it can't tell whether anything is wrong.
func (a *Advisor) unrouted(said *atomic.Bool, r keyfuncs.Request, whose, what, so string) {
	if a.routeDone(said) {
		return
	}
	remedy := "put the limiter behind the router, or on the route"
	if adapter, ok := keyfuncs.As[keyfuncs.RouteAdvice](r); ok {
		if remedy = adapter.RouteRemedy(); remedy == "" {
			return
		}
	}
	if !said.Swap(true) {
		a.write(Route, whose+": "+what+" where the limiter stands, so "+so+"; "+remedy)
	}
}

// routeDone reports whether there is nothing to log about routes any more: it was said, or is
// silenced.
func (a *Advisor) routeDone(said *atomic.Bool) bool { return said.Load() || a.silences(Route) }
