package advice

import (
	"fmt"

	"github.com/weblimit/weblimit/keyfuncs"
)

// keylessLooks is how many requests of a limit lack its key before that is noticed.
const keylessLooks = 10

// Key is what a decision has found of the key of a limit.
type Key uint8

// What a decision can find.
const (
	NotChecked Key = iota // the limit did not apply, or skips the request for lack of the key
	Refused               // the limit, in shadow mode, would have denied the request without asking the store
	Lacked                // the request lacks the key, and was checked as one of those that do
	Found                 // the request has the key
)

// lookKeyless looks for limits whose key no request has.
func (l *Limit) lookKeyless(r keyfuncs.Request, key Key) {
	if n := l.lacked.Load(); n < 0 || n >= keylessLooks || l.Denies {
		return
	}
	switch {
	case key == Found:
		l.lacked.Store(-Looks) // so that it stays below 0
	case key == Lacked, key == NotChecked && l.Skips && l.mayApply(r):
		if l.lacked.Add(1) == keylessLooks {
			l.sayKeyless(r)
		}
	}
}

// sayKeyless logs that no request had the limit's key, unless other advice says so.
func (l *Limit) sayKeyless(r keyfuncs.Request) {
	so := "so they share one bucket"
	if l.Skips {
		so = "so it limits nobody"
	} else if l.Key.Unrouted(r) != "" {
		return
	}
	what, _ := l.Key.Lacks(r)
	l.advisor.sayOf(l.Name, Keyless, fmt.Sprintf("limit %s: none of its first %d requests has its key (%s), %s; check that the limiter stands behind what provides the key (authentication; for a path parameter, on the route), and that name and type are right", l.Name, keylessLooks, what, so))
}
