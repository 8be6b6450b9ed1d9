package client

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weblimit/weblimit/core"
)

// Bounds of what an answer says. Others are not of the service: something else answers in its place, or
// it is broken.
const (
	longestDelay = int64(time.Hour / time.Millisecond) // the longest that a limit makes requests wait
	longestRetry = math.MaxInt64 / int64(time.Millisecond)
)

// passing are the reasons with which a request passes. With others it does not, but for
// core.ReasonOutageLocal, with which it may or may not.
var passing = map[core.Reason]bool{
	core.ReasonWithinLimit: true, core.ReasonBypassed: true, core.ReasonShadowed: true, core.ReasonOutageAllowed: true, core.ReasonDelayed: true,
}

// check returns an error if an answer can't be one of the service to n checks. Whatever answers in the service's place, such
// as an application with JSON of its own, must not let requests pass by accident: {} or {"allowed":true} is no answer.
func (a *Answer) check(n int) error {
	reason, known := reasons[a.Reason]
	switch {
	case a.Reason == "" || known && reason == core.ReasonUndecided:
		return errors.New("not an answer of the service: it has no reason")
	case known && reason != core.ReasonOutageLocal && a.Allowed != passing[reason]:
		return fmt.Errorf("not an answer of the service: allowed is %t, and the reason %q", a.Allowed, a.Reason)
	case !a.Allowed && (a.Status < 400 || a.Status > 599):
		return fmt.Errorf("not an answer of the service: a denial with status %d", a.Status)
	case a.DelayMS < 0 || a.DelayMS > longestDelay || a.RetryAfterMS < 0 || a.RetryAfterMS > longestRetry:
		return errors.New("not an answer of the service: a time that can't be")
	case n > 1 && len(a.Checks) != n:
		return fmt.Errorf("not an answer of the service: %d answers to %d checks together", len(a.Checks), n)
	}
	for i := range a.Checks {
		if err := a.Checks[i].check(1); err != nil {
			return err
		}
	}
	for i := range a.Warnings {
		if w := &a.Warnings[i]; !(w.Level > 0 && w.Level <= 1) || w.Used < 0 || w.Burst <= 0 {
			return errors.New("not an answer of the service: a warning that can't be")
		}
	}
	for i := range a.Limits {
		l := &a.Limits[i]
		for _, ms := range []int64{l.WindowMS, l.WaitMS, l.EffectiveWindowMS, l.ResetMS, l.RetryAfterMS} {
			if ms < 0 || ms > longestRetry {
				return errors.New("not an answer of the service: a limit with a time that can't be")
			}
		}
	}
	return nil
}

// checkGranted returns an error if an answer grants more units than its check has asked for, or allows a batch and grants
// none of it.
func (a *Answer) checkGranted(checks []Check) error {
	var most int64
	if len(checks) == 1 && checks[0].AtMost != nil {
		most = *checks[0].AtMost
	}
	if a.Granted < 0 || a.Granted > most || most > 0 && a.Allowed != (a.Granted > 0) {
		return fmt.Errorf("not an answer of the service: allowed is %t, and %d units of %d are granted", a.Allowed, a.Granted, most)
	}
	return nil
}
