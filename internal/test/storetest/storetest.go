// Package storetest holds the suite that every [core.Store] passes: a table of
// what users rely on, named after what broke other limiters, and random
// sequences compared step by step with an exact model. A store's tests call
// [Run] with a way to make it.
package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// Clock is the time that a store under test decides at. It stands still unless
// it is moved.
type Clock struct{ micros atomic.Int64 }

// Micros returns the time in microseconds since the epoch.
func (c *Clock) Micros() int64 { return c.micros.Load() }

// Set moves the clock to t, which may be earlier.
func (c *Clock) Set(t time.Time) { c.micros.Store(t.UnixMicro()) }

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) { c.micros.Add(int64(d / time.Microsecond)) }

// NewClock returns a clock that stands at a time of no significance.
func NewClock() *Clock {
	c := new(Clock)
	c.Set(time.Date(2026, 3, 14, 15, 9, 26, 535897000, time.UTC))
	return c
}

// Factory makes an empty store that decides at the clock's time.
type Factory func(t *testing.T, clock *Clock) core.Store

// Run runs the suite.
func Run(t *testing.T, newStore Factory) {
	runTable(t, newStore)
	runRandom(t, newStore, false)
}

// RunRandom runs only the random sequences, for a store that promises less to
// concurrent callers than the table wants.
func RunRandom(t *testing.T, newStore Factory) { runRandom(t, newStore, true) }

// rig is a store with what a test needs around it.
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

// rule returns the numbers of a limit that is known to be good.
func rule(t testing.TB, l core.Limit) *core.Rule {
	t.Helper()
	r, err := l.Rule()
	if err != nil {
		t.Fatal(err)
	}
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

// wantTake takes and checks whether it was allowed and what remains.
func (r *rig) wantTake(rule *core.Rule, key string, cost int64, allowed bool, remaining int64) core.Result {
	r.Helper()
	got := r.take(rule, key, cost)
	if got.Allowed != allowed || got.Charged != allowed || got.Remaining != remaining {
		r.Fatalf("%s: take %d: got %s, want allowed=%v remaining=%d", describe(rule), cost, show(got), allowed, remaining)
	}
	return got
}

// wantPeek checks what remains.
func (r *rig) wantPeek(rule *core.Rule, key string, remaining int64) {
	r.Helper()
	got := r.peek(rule, key, 1)
	if got.Remaining != remaining || got.Charged {
		r.Fatalf("%s: peek: got %s, want remaining=%d", describe(rule), show(got), remaining)
	}
}

func describe(r *core.Rule) string {
	s := fmt.Sprintf("%v %d per %v", r.Algorithm, r.Quota, r.Window)
	if r.Algorithm == store.Calendar {
		s = fmt.Sprintf("%v %d of kind %d", r.Algorithm, r.Quota, r.Integers().Unit)
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
	return fmt.Sprintf("{%sallowed=%v charged=%v repeated=%v remaining=%d retry=%v window=%v reset=%v}",
		blocked, r.Allowed, r.Charged, r.Repeated, r.Remaining, r.RetryAfter, r.Window, r.ResetAfter)
}

// Algorithms returns one limit of n units per window for each algorithm.
func Algorithms(n int64, window time.Duration) map[string]core.Limit {
	return map[string]core.Limit{
		"token bucket":   core.Per(n, window).Named("bucket"),
		"fixed window":   core.Per(n, window).FixedWindow().Named("fixed"),
		"jittered":       core.Per(n, window).FixedWindow().Jitter().Named("jittered"),
		"sliding window": core.Per(n, window).SlidingWindow().Named("sliding"),
		"sliding log":    core.Per(n, window).SlidingLog().Named("log"),
	}
}
