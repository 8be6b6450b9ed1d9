package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Limit is a rule for requests: so many units per window, for whom, counted
// how. It is a value; the decorators return a changed copy, so limits can be
// kept in variables, passed around and derived from each other:
//
//	perUser := core.PerMinute(600).By(keyfuncs.User("user"))
//	search := perUser.Named("search").Cost(5)
//
// Nothing is checked until the limit is used: [New], or the Limit function of an
// adapter, says what is wrong with it. The zero Limit is not usable.
type Limit struct {
	numbers  numbers
	name     string
	named    bool
	cost     int64
	costBy   func(keyfuncs.Request) int64
	keys     []keyfuncs.Func
	when     []keyfuncs.Condition
	tiers    func(keyfuncs.Request) Limit
	scale    func(context.Context) float64
	reserve  *reserve
	missing  MissingKey
	outage   Outage
	shadow   bool
	warnAt   []float64
	wait     time.Duration
	slow     slowDown
	refundOn func(Outcome) bool
	estimate bool
	once     keyfuncs.Func // whose operations are charged once, if hasOnce
	hasOnce  bool
}

// numbers are what stores are told of a limit, and how it came to have them where
// that can be wrong. They are comparable.
type numbers struct {
	store.Numbers
	concurrent bool // made by Concurrent: the window is the lease
	hasBurst   bool
	hasLease   bool
	hasPenalty bool
	hasRepeats bool
	hasSoft    bool
}

// DefaultName is the name of a limit that was not given one with [Limit.Named].
const DefaultName = "default"

// Per allows n units per window: a token bucket that holds n, unless a
// decorator says otherwise. The window is a whole number of microseconds, from
// 1ms to 100 years.
func Per(n int64, window time.Duration) Limit {
	return newLimit(store.Numbers{Algorithm: store.TokenBucket, Quota: n, Window: window})
}

func newLimit(n store.Numbers) Limit {
	return Limit{numbers: numbers{Numbers: n}, name: DefaultName, cost: 1}
}

// PerSecond allows n units per second.
func PerSecond(n int64) Limit { return Per(n, time.Second) }

// PerMinute allows n units per minute.
func PerMinute(n int64) Limit { return Per(n, time.Minute) }

// PerHour allows n units per hour.
func PerHour(n int64) Limit { return Per(n, time.Hour) }

// PerDay allows n units per 24 hours.
func PerDay(n int64) Limit { return Per(n, 24*time.Hour) }

// By says whose bucket a request is charged to: one for each value that the key
// function finds. Several are joined: a bucket for each combination. Every limit
// needs it; one for all is By(keyfuncs.Everyone()).
//
// A request that lacks the key, such as one without an API key, shares one
// bucket with all others that lack it, unless [Limit.OnMissingKey] says otherwise.
// A request that has it several times, such as an API key on two lines, is denied
// with status 400: the application might read another one than the limit.
func (l Limit) By(keys ...keyfuncs.Func) Limit {
	l.keys = slices.Clone(keys)
	return l
}

// Named gives the limit a name for headers, logs and the store: 1 to 64 of
// A-Z a-z 0-9 . _ and -. Within one store it belongs to one limit. Limits that
// are equal may share it, and then share their buckets. Renaming a limit starts
// it afresh. Defaults to DefaultName.
func (l Limit) Named(name string) Limit {
	l.name, l.named = name, true
	return l
}

// Burst sets how many units can be spent at once by a client that saved them
// up: the capacity of the token bucket. The quota stays the long-run rate.
// Defaults to the quota.
func (l Limit) Burst(n int64) Limit {
	l.numbers.Burst, l.numbers.hasBurst = n, true
	return l
}

// TokenBucket refills evenly, all the time: quota units per window, up to the
// burst. It spreads clients out best and costs the least, and is the default.
func (l Limit) TokenBucket() Limit {
	l.numbers.Algorithm = store.TokenBucket
	return l
}

// FixedWindow counts in windows that are aligned to the epoch: a minute's begins
// at second 0, a day's at 0:00 UTC. Easy to explain and right for quotas such as
// 1000 a day. Around the edge of two windows up to twice the quota can pass; see
// [Limit.Jitter] for what happens at the edge.
func (l Limit) FixedWindow() Limit {
	l.numbers.Algorithm = store.FixedWindow
	return l
}

// SlidingWindow smooths the edge of fixed windows: it counts in two, and lets
// the earlier one weigh as much as it overlaps with the window that ends now.
func (l Limit) SlidingWindow() Limit {
	l.numbers.Algorithm = store.SlidingWindow
	return l
}

// SlidingLog remembers each request for one window: exact over any stretch of
// time, which is what a login form wants, for quotas up to 5000. Memory per key
// grows with the quota, and so does the time of a check: in Redis some 60 ns for
// each request that it remembers, 0.3 ms for 5000.
func (l Limit) SlidingLog() Limit {
	l.numbers.Algorithm = store.SlidingLog
	return l
}

// Jitter shifts each key's windows by an offset of its own, so that not all
// clients come back in the same instant when a window ends. It belongs to
// FixedWindow and SlidingWindow.
func (l Limit) Jitter() Limit {
	l.numbers.Jitter = true
	return l
}

// Cost is how many units a request takes, at least 1 and at most the burst.
// Defaults to 1.
func (l Limit) Cost(n int64) Limit {
	l.cost = n
	return l
}

// Rule checks the limit and returns its numbers, as stores want them. The error
// names the limit and what is wrong with it.
func (l Limit) Rule() (Rule, error) {
	if err := l.validate(); err != nil {
		return Rule{}, fmt.Errorf("weblimit: limit %q: %w", l.name, err)
	}
	n := l.numbers.Numbers
	if n.Algorithm == store.TokenBucket { // others ask again
		n.Wait = l.wait
	}
	r, err := store.NewRule(l.name, n)
	if err != nil {
		return Rule{}, err
	}
	if l.cost > r.Burst {
		return Rule{}, fmt.Errorf("weblimit: limit %q: cost %d can never fit: the limit holds at most %d", l.name, l.cost, r.Burst)
	}
	if l.reserve != nil {
		switch lower := l.reserve.part(r.Burst); {
		case lower < 1:
			return Rule{}, fmt.Errorf("weblimit: limit %q: Reserve leaves nothing of %d units to requests of the lower class", l.name, r.Burst)
		case l.cost > lower:
			return Rule{}, fmt.Errorf("weblimit: limit %q: cost %d can never fit in the lower class: Reserve leaves it %d units", l.name, l.cost, lower)
		}
	}
	return r, nil
}

func (l *Limit) validate() error {
	n := &l.numbers
	switch {
	case n.Algorithm == 0:
		return errors.New("a limit is made by Per, PerSecond, PerMinute, PerHour, PerDay or Concurrent")
	case !validName(l.name):
		return errors.New("name must be 1 to 64 of A-Z a-z 0-9 . _ -")
	case n.concurrent && n.Algorithm != store.Concurrency:
		return fmt.Errorf("a limit of requests at the same time has no other algorithm, got a %v", n.Algorithm)
	case n.concurrent && (n.hasBurst || n.Jitter):
		return errors.New("a limit of requests at the same time has neither Burst nor Jitter")
	case n.hasLease && !n.concurrent:
		return fmt.Errorf("Lease belongs to a limit of requests at the same time, not to a %v", n.Algorithm)
	case n.hasBurst && n.Algorithm != store.TokenBucket:
		return fmt.Errorf("Burst belongs to a token bucket, not to a %v", n.Algorithm)
	case n.hasBurst && n.Burst == 0 && n.Quota > 0: // else a default
		return errors.New("burst must be at least 1, got 0")
	case n.hasSoft && n.Soft == 0:
		return fmt.Errorf("the soft limit must be at least 1 and below the %d units of the limit itself, got 0", cmp.Or(n.Burst, n.Quota))
	case n.hasPenalty && n.Block.After == 0:
		return errors.New("Block.After must be from 1 to 2^31, got 0")
	case l.cost < 1:
		return fmt.Errorf("cost must be at least 1, got %d", l.cost)
	case !l.outage.valid():
		return fmt.Errorf("unknown outage policy %d", l.outage)
	case l.wait < 0 || l.wait > maxWait || l.wait%time.Microsecond != 0:
		return fmt.Errorf("a request may wait whole microseconds up to %v, not %v", maxWait, l.wait)
	case n.hasPenalty && l.wait > 0 && n.Algorithm != store.TokenBucket:
		return fmt.Errorf("Penalty does not go with Wait under a %v: a request that waits is asked for again, and each denial would count", n.Algorithm)
	case !l.missing.valid():
		return fmt.Errorf("unknown policy for missing keys %d", l.missing)
	}
	if err := l.slow.validate(); err != nil {
		return err
	}
	for _, level := range l.warnAt {
		if !(level > 0 && level <= 1) { // NaN, too
			return fmt.Errorf("a warning level is above 0 and at most 1, got %v", level)
		}
	}
	if l.reserve != nil {
		if err := l.reserve.validate(); err != nil {
			return err
		}
		if l.wait > 0 && n.Algorithm == store.TokenBucket {
			return errors.New("a token bucket has either Reserve or a queue (Wait, LeakyBucket): who queues would be in front of those for whom a part is kept")
		}
	}
	if l.hasOnce && l.once.Err() != nil {
		return fmt.Errorf("OncePer: %s", unprefixed(l.once.Err()))
	}
	if n.hasRepeats && !l.hasOnce && n.Once == 0 {
		return errors.New("Repeats belongs to OncePer: it says how many repeats of an operation are free")
	}
	if n.hasRepeats && l.hasOnce && n.Repeats == 0 { // else a default
		return errors.New("free repeats must be from 1 to 1000, got 0")
	}
	if l.hasOnce && n.Once == 0 { // else no OncePer
		return errors.New("OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got 0s")
	}
	for _, c := range l.when {
		if err := c.Err(); err != nil {
			return errors.New(unprefixed(err))
		}
	}
	return nil
}

func validName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// key returns the one key function that By's make together.
func (l *Limit) key() (keyfuncs.Func, error) {
	var key keyfuncs.Func
	switch len(l.keys) {
	case 0:
		return key, fmt.Errorf("weblimit: limit %q: say who is limited with By, such as By(keyfuncs.ClientIP())", l.name)
	case 1:
		key = l.keys[0]
	default:
		key = keyfuncs.Join(l.keys...)
	}
	if err := key.Err(); err != nil {
		return key, fmt.Errorf("weblimit: limit %q: %s", l.name, unprefixed(err))
	}
	return key, nil
}

// unprefixed returns an error of package keyfuncs for use behind a prefix.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "weblimit: ") }
