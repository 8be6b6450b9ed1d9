// Package storetest is the suite that every [core.Store] passes. A new store calls [Run]:
//
//	func TestStore(t *testing.T) {
//		t.Parallel()
//		storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
//			return mystore.NewAt(clock.Micros) // empty, and on this clock
//		})
//	}
//
// The suite is a table of what users rely on, with a case for each way in which other
// limiters were wrong; random sequences of operations, whose results are compared with
// those of an exact model; and limiters on the store in a wrapper.
//
// [RunAgain] and [RunRandom] are for a second set-up of a store that has passed Run, such as another
// protocol or a cluster.
package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Clock is the clock of a store under test. It stands still until a test moves it.
type Clock struct {
	micros atomic.Int64
	moving sync.RWMutex // held while it is moved, and by those for whom it stands still
}

// Micros returns the time in microseconds since the epoch.
func (c *Clock) Micros() int64 { return c.micros.Load() }

// Set moves the clock to t, which may be earlier.
func (c *Clock) Set(t time.Time) {
	c.moving.Lock()
	defer c.moving.Unlock()
	c.micros.Store(t.UnixMicro())
}

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) {
	c.moving.Lock()
	defer c.moving.Unlock()
	c.micros.Add(int64(d / time.Microsecond))
}

// Still calls f, and does not move meanwhile. It is for what a store does when nobody waits for it: a server's own clock
// moves between the beginning of a call and its effect by no more than the call takes.
func (c *Clock) Still(f func()) {
	c.moving.RLock()
	defer c.moving.RUnlock()
	f()
}

// NewClock returns a clock at an arbitrary time.
func NewClock() *Clock {
	c := new(Clock)
	c.Set(time.Date(2026, 3, 14, 15, 9, 26, 535897000, time.UTC))
	return c
}

// Factory returns an empty store that takes the time from clock.
type Factory func(t *testing.T, clock *Clock) core.Store

// Run runs the whole suite, in parallel subtests of t.
func Run(t *testing.T, newStore Factory) {
	run(t, newStore, rounds(12, 500))
}

// RunAgain is Run with fewer random sequences, for a second set-up of a store that has passed Run.
func RunAgain(t *testing.T, newStore Factory) {
	run(t, newStore, rounds(3, 100))
}

func run(t *testing.T, newStore Factory, sequences uint64) {
	runTable(t, newStore)
	runRandom(t, newStore, sequences, false)
	runAtMost(t, newStore, sequences)
	runWrapped(t, newStore)
	runRegistry(t, newStore)
}

// RunRandom runs only random sequences, few of them, and the cases of ledgers. It also passes for a store whose
// concurrent callers may see half of a charge to several keys, as on a cluster.
func RunRandom(t *testing.T, newStore Factory) {
	sequences := rounds(4, 100)
	runRandom(t, newStore, sequences, true)
	runTests(t, newStore, ledgerTable)
	runAtMost(t, newStore, sequences)
}

// rig is a store, its clock and its test, with helpers that fail the test.
type rig struct {
	*testing.T
	core.Store
	*Clock
}

func newRig(t *testing.T, newStore Factory) *rig {
	t.Helper()
	clock := NewClock()
	return &rig{t, newStore(t, clock), clock}
}

// rule returns the rule of a valid limit.
func rule(t testing.TB, l core.Limit) *core.Rule {
	t.Helper()
	r := must.Get(l.Rule())(t)
	return &r
}

func (r *rig) take(rule *core.Rule, key string, cost int64) core.Result {
	r.Helper()
	return r.takeAll(core.Check{Key: []byte(key), Rule: rule, Cost: cost})[0]
}

func (r *rig) takeAll(checks ...core.Check) []core.Result {
	r.Helper()
	results := make([]core.Result, len(checks))
	if err := r.Take(context.Background(), checks, results); err != nil {
		r.Fatalf("take: %v", err)
	}
	return results
}

func (r *rig) peek(rule *core.Rule, key string, cost int64) core.Result {
	r.Helper()
	results := make([]core.Result, 1)
	if err := r.Peek(context.Background(), []core.Check{{Key: []byte(key), Rule: rule, Cost: cost}}, results); err != nil {
		r.Fatalf("peek: %v", err)
	}
	return results[0]
}

func (r *rig) refund(rule *core.Rule, key string, cost int64, result core.Result) core.Result {
	r.Helper()
	results := []core.Result{result}
	if err := r.Refund(context.Background(), []core.Check{{Key: []byte(key), Rule: rule, Cost: cost}}, results); err != nil {
		r.Fatalf("refund: %v", err)
	}
	return results[0]
}

func (r *rig) reset(rule *core.Rule, key string) {
	r.Helper()
	if err := r.Reset(context.Background(), []core.Check{{Key: []byte(key), Rule: rule}}); err != nil {
		r.Fatalf("reset: %v", err)
	}
}

// wantTake takes, and fails the test unless allowed and remaining are as given.
func (r *rig) wantTake(rule *core.Rule, key string, cost int64, allowed bool, remaining int64) core.Result {
	r.Helper()
	got := r.take(rule, key, cost)
	if got.Allowed != allowed || got.Charged != allowed || got.Remaining != remaining {
		r.Fatalf("%s: take %d: got %s, want allowed=%v remaining=%d", describe(rule), cost, show(got), allowed, remaining)
	}
	return got
}

// wantPeek fails the test unless remaining units are left.
func (r *rig) wantPeek(rule *core.Rule, key string, remaining int64) {
	r.Helper()
	got := r.peek(rule, key, 1)
	if got.Remaining != remaining || got.Charged {
		r.Fatalf("%s: peek: got %s, want remaining=%d", describe(rule), show(got), remaining)
	}
}

// wantLeft fails the test unless a result says that so many units are left.
func (r *rig) wantLeft(what string, got core.Result, remaining int64) {
	r.Helper()
	if got.Remaining != remaining {
		r.Fatalf("%s: got %s, want remaining=%d", what, show(got), remaining)
	}
}

func describe(r *core.Rule) string {
	s := fmt.Sprintf("%v %d per %v", r.Algorithm, r.Quota, r.Window)
	if onCalendar(r) {
		s = fmt.Sprintf("%v %d of kind %d", r.Algorithm, r.Quota, r.Integers.Unit)
	}
	if r.Burst != r.Quota {
		s += fmt.Sprintf(", burst %d", r.Burst)
	}
	if whole := modelWhole(r); r.Burst != whole {
		s += fmt.Sprintf(", lower class of %d", whole)
	}
	if r.Jitter {
		s += ", jitter"
	}
	if r.HasDebt {
		s += fmt.Sprintf(", debt %d", r.Debt)
	}
	if r.FromUse {
		s += ", from first use"
	}
	if r.Wait > 0 {
		s += fmt.Sprintf(", queue of %v", r.Wait)
	}
	if r.Penalized() {
		s += fmt.Sprintf(", penalty %+v", r.Block)
	}
	return s
}

func show(r core.Result) string {
	blocked := ""
	if r.Blocked {
		blocked = "blocked "
	}
	if r.Unknown {
		blocked += "unknown "
	}
	if r.PassedOver {
		blocked += "passed over "
	}
	if r.Forgiven > 0 {
		blocked += fmt.Sprintf("forgiven=%d ", r.Forgiven)
	}
	if r.Standing != store.Undivided || r.Share > 0 {
		blocked += fmt.Sprintf("%v share=%d ", r.Standing, r.Share)
	}
	return fmt.Sprintf("{%sallowed=%v charged=%v repeated=%v remaining=%d retry=%v turn=%v window=%v reset=%v}",
		blocked, r.Allowed, r.Charged, r.Repeated, r.Remaining, r.RetryAfter, r.Turn, r.Window, r.ResetAfter)
}

// Algorithms returns one limit of n units per window for each algorithm.
func Algorithms(n int64, window time.Duration) map[string]core.Limit {
	return map[string]core.Limit{
		"token bucket":   core.Per(n, window).Named("bucket"),
		"fixed window":   core.Per(n, window).FixedWindow().Named("fixed"),
		"jittered":       core.Per(n, window).FixedWindow().Jitter().Named("jittered"),
		"from first use": core.Per(n, window).FromFirstUse().Named("from-use"),
		"sliding window": core.Per(n, window).SlidingWindow().Named("sliding"),
		"sliding log":    core.Per(n, window).SlidingLog().Named("log"),
	}
}
