package core

import (
	"slices"

	"github.com/weblimit/weblimit/keyfuncs"
)

// The decorators of Limit that look at the request, or say what follows from a
// decision. The numbers are in limit.go.

// CostBy takes the units of a request from the request: its size, a batch's
// length, a route's weight. 0 asks without charging; more than the burst can
// never be paid; a request of negative cost is denied with ReasonInvalidCost.
// The function runs on every request, maybe on many at once, and must not block.
func (l Limit) CostBy(f func(keyfuncs.Request) int64) Limit {
	l.costBy = f
	return l
}

// When applies the limit only to requests for which c holds. Several must all hold.
// The limit applies, too, where that is not known ([keyfuncs.Unknown]): a condition
// on routes, of a limiter in front of the router. It logs [AdviceRoute] then.
func (l Limit) When(c keyfuncs.Condition) Limit {
	l.when = append(slices.Clip(l.when), c)
	return l
}

// Unless applies the limit only to requests for which c does not hold, or is not
// known to.
func (l Limit) Unless(c keyfuncs.Condition) Limit { return l.When(keyfuncs.Not(c)) }

// Tiers chooses the numbers for each request, such as those of the client's
// plan: quota, window, burst, algorithm and jitter of the limit that f returns.
// Name, key, cost and all else stay. The zero Limit means the limit's own
// numbers, and so does one that can never work, which is logged as [AdviceTier].
//
// What a client has used stays used when its tier changes, up to the new burst:
// with 60 of 100 used, a raise to 200 leaves 140, a cut to 70 leaves 10, and a
// cut to 50 leaves 0. That holds across algorithms too, but a tier of a
// [Concurrent] limit has to be one itself, and no other may be.
//
// The function runs on every request, maybe on many at once, and must not block.
func (l Limit) Tiers(f func(keyfuncs.Request) Limit) Limit {
	l.tiers = f
	return l
}

// MissingKey is what a limit does with a request that lacks its key. A request whose
// key is ambiguous, such as one with two API keys, does not lack it: that is denied
// with ReasonAmbiguousKey and status 400, whatever the limit says here.
type MissingKey uint8

const (
	// ShareBucket lets all requests that lack the key share one bucket. A
	// [Limit.Penalty] never blocks it.
	ShareBucket MissingKey = iota
	// DenyRequest denies them, with ReasonMissingKey and status 429.
	DenyRequest
	// SkipLimit leaves them to the other limits: this one does not count.
	SkipLimit
)

func (m MissingKey) valid() bool { return m <= SkipLimit }

// OnMissingKey says what happens to a request that lacks the key, such as one
// without an API key. Defaults to ShareBucket.
func (l Limit) OnMissingKey(m MissingKey) Limit {
	l.missing = m
	return l
}

// OnOutage says how to decide while the store does not answer. Defaults to Local.
func (l Limit) OnOutage(o Outage) Limit {
	l.outage = o
	return l
}

// Shadow judges requests by the limit without enforcing it: it is counted, and
// is among the decision's results, but denies nobody and shows in no header. Try
// a new limit with it. In an outage it is left out.
func (l Limit) Shadow() Limit {
	l.shadow = true
	return l
}

// WarnAt tells clients that come near the limit before it refuses them: from the
// request on whose charge reaches a level, above 0 and at most 1 of the burst,
// responses have a warning header, the decision a level, and Config.OnWarning
// gets one event per key, level and window; a request that reaches several levels
// at once sends one for each, the lowest first. Defaults to none, and to 0.8, 0.9
// and 1 for a calendar window where OnWarning is set; WarnAt() means none there.
//
// In a fixed or calendar window one charge reaches a level, so there is one event
// over all processes that share the store. There can be more where what was used
// falls below a level again, by a refund, a reset or a change of the limit: then a
// process sends none that it has sent before. Leases and outages, in which
// processes don't know of each other, can bring one per process.
func (l Limit) WarnAt(levels ...float64) Limit {
	l.warnAt = slices.AppendSeq(make([]float64, 0, len(levels)), slices.Values(levels))
	slices.Sort(l.warnAt)
	return l
}

// Soft sets a soft limit of n units, at least 1 and below the burst, which stays
// the hard limit. A request after whose charge more than n units are used is
// allowed, and [LimitResult.Soft] and [Decision.OverSoft] say so: to answer it
// late, from a cache or with less. Its response has the header
//
//	X-RateLimit-Warning: over soft limit; policy="name"; used=85%
//
// where a warning of [Limit.WarnAt] begins with "approaching limit". The percentage
// is of the burst. A tier has its own soft limit or none. Defaults to none.
func (l Limit) Soft(n int64) Limit {
	l.numbers.Soft, l.numbers.hasSoft = n, true
	return l
}
