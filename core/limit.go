package core

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Limit is one rate limit: how many units per window, for which key, counted by
// which algorithm. It is a value. Each decorator returns a changed copy, so limits
// can be kept in variables, passed around and derived from each other:
//
//	perUser := core.PerMinute(600).By(keyfuncs.User("user"))
//	search := perUser.Named("search").Cost(5)
//
// Start with [Per], [PerSecond], [PerMinute], [PerHour], [PerDay], [PerWeek], [PerMonth],
// [PerBillingMonth], [PerCalendarDay] or [Concurrent], or with text from a flag or the environment:
// [ParseLimit], [MustParseLimit]. The decorators, by purpose:
//
//   - whose bucket, and its name: [Limit.By], [Limit.OnMissingKey], [Limit.Named]
//   - the algorithm, one at most: [Limit.TokenBucket], [Limit.Burst], [Limit.FixedWindow],
//     [Limit.FromFirstUse], [Limit.SlidingWindow], [Limit.Jitter], [Limit.SlidingLog], [Limit.LeakyBucket]
//   - which requests, and what they cost: [Limit.When], [Limit.Unless], [Limit.Cost],
//     [Limit.CostBy], [Limit.OncePer], [Limit.Repeats]
//   - numbers that change: [Limit.Tiers], [Limit.Scale], [Limit.KeepFree], [Limit.Classes]
//   - who comes first when there is not enough for all: [Limit.Fair]
//   - the charge after the response: [Limit.RefundOn], [Limit.Estimate],
//     [Limit.EstimateBy], [Limit.UpToBurst], [Limit.Debt]
//   - delays instead of denials: [Limit.Wait], [Limit.SlowDown]
//   - warnings before denials: [Limit.WarnAt], [Limit.Soft]
//   - penalties for repeat offenders: [Limit.Penalty]
//   - concurrency limits: [Limit.Lease]
//   - trials and failures: [Limit.Shadow], [Limit.OnOutage]
//   - what clients are told: [Limit.Hidden], [Limit.Status]
//   - several regions: [Limit.Regions], [Limit.Overdraft]
//
// [First] makes a choice of several limits, of which one pays, and [Limit.SpillOver] has what it can't pay go on to the next.
//
// Each decorator is for once: a second By, Cost or RefundOn is an error, since the first would do
// nothing. Only Named renames, When and Unless add up, and Jitter, FromFirstUse, Shadow and Hidden may be repeated. So
// derive limits from one that has not yet what they differ in.
//
// A limit is checked when it is used, and not before: [New] and the Limit functions
// of the adapters report what is wrong with it. The zero Limit is not usable. Limits
// are safe for concurrent use, and the functions given to decorators must be, too.
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
	classes  *classes // nil if there is one
	fair     *Shares  // nil if clients do not divide the limit
	missing  MissingKey
	outage   OutageAction
	regions  store.Regions
	shadow   bool
	hidden   bool
	status   int // of a denial; 0 for 429
	warnAt   []float64
	wait     time.Duration
	slow     slowDown
	refundOn func(Outcome) bool
	estimate bool
	once     keyfuncs.Func // the key of operations that are charged once; set if hasOnce
	hasOnce  bool
	settings settings

	upToBurst bool // an estimate above the burst takes the burst

	suits func(Store) error // asked for the limiter's store; nil if any will do

	choice   []Limit // of which one pays, if this is First's; else nil
	inChoice int     // the number of the choice that the limit is in, from 1; 0 for none
}

// numbers are a limit's numbers for the store, and which of them were set by a
// decorator: an explicit 0 is an error, and so is a decorator that does not fit the
// algorithm. They are comparable, so that a tier can be looked up by them.
type numbers struct {
	store.Numbers
	chosen     store.Algorithm // by a decorator
	other      store.Algorithm // chosen before it, which is an error
	concurrent bool            // made by Concurrent: the window is the lease
	hasBurst   bool
	hasLease   bool
	hasPenalty bool
	hasRepeats bool
	hasSoft    bool
}

// defaultName is the name of a limit without [Limit.Named].
const defaultName = "default"

// Per allows n units per window, from 1ms to 100 years in whole microseconds. It is a
// token bucket of n units unless a decorator chooses another algorithm or burst.
func Per(n int64, window time.Duration) Limit {
	return newLimit(store.Numbers{Algorithm: store.TokenBucket, Quota: n, Window: window})
}

func newLimit(n store.Numbers) Limit {
	return Limit{numbers: numbers{Numbers: n}, name: defaultName, cost: 1}
}

// PerSecond allows n units per second.
func PerSecond(n int64) Limit { return Per(n, time.Second) }

// PerMinute allows n units per minute.
func PerMinute(n int64) Limit { return Per(n, time.Minute) }

// PerHour allows n units per hour.
func PerHour(n int64) Limit { return Per(n, time.Hour) }

// PerDay allows n units per 24 hours. For days of a time zone see [PerCalendarDay].
func PerDay(n int64) Limit { return Per(n, 24*time.Hour) }

// PerWeek allows n units per 7 days.
func PerWeek(n int64) Limit { return Per(n, 7*24*time.Hour) }

// Named sets the name of the limit in headers, logs and store keys: 1 to 64 letters,
// digits and . _ - of ASCII. Defaults to "default".
//
// Within one store a name belongs to one limit. Limits that are equal may have the
// same name, and then count in the same buckets. A renamed limit starts with fresh
// buckets.
func (l Limit) Named(name string) Limit {
	l.name, l.named = name, true
	return l
}
