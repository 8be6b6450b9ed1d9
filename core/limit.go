package core

import (
	"context"
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

// Named gives the limit a name for headers, logs and the store: 1 to 64 of
// A-Z a-z 0-9 . _ and -. Within one store it belongs to one limit. Limits that
// are equal may share it, and then share their buckets. Renaming a limit starts
// it afresh. Defaults to DefaultName.
func (l Limit) Named(name string) Limit {
	l.name, l.named = name, true
	return l
}
