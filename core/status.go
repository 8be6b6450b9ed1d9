package core

import "fmt"

// Status sets the HTTP status of denials by the limit, from 400 to 499, in place of 429. A plan that is used up can
// say 402, for which a client pays or waits for the next period, where it would repeat a request that was answered
// with 429:
//
//	core.PerMonth(100_000, time.UTC).By(keyfuncs.Tenant("tenant")).Named("plan").Status(402)
//
// It is the status where the limit has no room, or never has as much: of several limits that deny, the
// one that takes longest to allow the request decides. A block and a missing key keep their own, and
// so does a denial in an outage, when nobody knows whether the plan is used up. The
// problem body has the same type, "quota-exceeded", and the status. Over gRPC the code stays RESOURCE_EXHAUSTED, and
// the retry policy of clients is told not to retry.
//
// It may not be 401, which needs a challenge; see [MissingKeyAnswer]. Defaults to 429.
func (l Limit) Status(code int) Limit {
	l.settings.set(setStatus)
	l.status = code
	return l
}

// validateStatus checks Status.
func (l *Limit) validateStatus() error {
	switch {
	case !l.settings.has(setStatus):
		return nil
	case l.status < 400 || l.status > 499:
		return fmt.Errorf("the status of a denial must be from 400 to 499, got %d", l.status)
	case l.status == statusUnauthorized:
		return fmt.Errorf("the status of a denial can't be 401: no credential ends it")
	}
	return nil
}

// deniedStatus returns the status of a denial by limits that have no room.
func (d *Decision) deniedStatus() int {
	if d.limiter == nil || d.Allowed || d.Err != nil || d.binding < 0 || int(d.binding) >= int(d.count) {
		return statusTooManyRequests
	}
	r := &d.Results()[d.binding]
	if r.Allowed || r.Blocked {
		return statusTooManyRequests
	}
	if l := d.limiter.limitOf(r.Rule.Name); l != nil && l.status != 0 {
		return l.status
	}
	return statusTooManyRequests
}
