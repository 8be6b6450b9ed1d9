package advice

import "github.com/weblimit/weblimit/keyfuncs"

// Looks is how many requests of a limiter are looked at.
const Looks = 1000

// Looking reports whether Look is to see the next request.
func (a *Advisor) Looking() bool { return a.looks.Load() < Looks }

// Seen is a request, and what its decision has found.
type Seen struct {
	Request keyfuncs.Request
	Twice   bool // the same limiter has decided it before

	// Keys has one for each limit, in the order in which they were added. It is empty if no limit was asked, or if
	// the request was denied before all of them were.
	Keys []Key
}

// Look examines one of the first requests of a limiter for misconfigurations that only requests show. It is called
// once, after the decision and before anybody hears of it.
func (a *Advisor) Look(s Seen) {
	first := a.looks.Add(1) == 1
	a.lookTwice(s)
	if first {
		a.lookNoRoute(s.Request)
		a.lookFramework(s.Request)
	}
	a.lookUnguarded(s.Request)
	for _, l := range a.byRoute {
		l.lookRoute(s.Request)
	}
	for _, l := range a.proxied {
		l.lookUnlisted(s.Request)
		l.lookNoClient(s.Request)
	}
	for _, l := range a.byParam {
		l.lookParam(s.Request)
	}
	a.lookExempt(s.Request)
	a.lookForwarded(s.Request)
	for i, key := range s.Keys {
		a.limits[i].lookKeyless(s.Request, key)
	}
}
