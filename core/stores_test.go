package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/draining"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
)

// at returns a store in memory whose time stands still, and its clock.
func at() (*core.Memory, *storetest.Clock) {
	clock := storetest.NewClock()
	m := core.NewMemory()
	testclock.Set(m, clock.Micros)
	return m, clock
}

// memoryAt is a store in memory whose clock stands still.
func memoryAt(now time.Time) *core.Memory {
	m, clock := at()
	clock.Set(now)
	return m
}

func mustRule(t testing.TB, l core.Limit) *core.Rule {
	t.Helper()
	r := must.Get(l.Rule())(t)
	return &r
}

// newLimiter returns the limiter of a configuration that is known to be good.
func newLimiter(t testing.TB, config core.Config) *core.Limiter {
	t.Helper()
	return must.Get(core.New(config))(t)
}

// limiterOn returns the limiter of these limits on store, all else by default.
func limiterOn(t testing.TB, store core.Store, limits ...core.Limit) *core.Limiter {
	t.Helper()
	return newLimiter(t, core.Config{Store: store, Limits: limits})
}

// limiterAt returns the limiter of these limits on a store in memory whose time stands still.
func limiterAt(t testing.TB, limits ...core.Limit) *core.Limiter {
	t.Helper()
	store, _ := at()
	return limiterOn(t, store, limits...)
}

// everyone is a limit of n units an hour for all together.
func everyone(n int64) core.Limit { return core.PerHour(n).By(keyfuncs.Everyone()) }

// outcome is whether a request is allowed, and why.
type outcome struct {
	Allowed bool
	Reason  core.Reason
}

func outcomeOf(d core.Decision) outcome { return outcome{d.Allowed, d.Reason} }

func wantAllowed(t testing.TB, what string, d core.Decision) {
	t.Helper()
	if !d.Allowed {
		t.Errorf("%s: denied because %v", what, d.Reason)
	}
}

// wantWait checks why a decision was made, and how long a client that is denied has to wait: 0 if it is not.
func wantWait(t testing.TB, what string, d core.Decision, reason core.Reason, wait time.Duration) {
	t.Helper()
	check.Equal(t, what, outcomeOf(d), outcome{wait == 0, reason})
	check.Equal(t, what+": to wait", d.RetryAfter, wait)
}

// wantDecision checks what a client notices first.
func wantDecision(t testing.TB, what string, d core.Decision, allowed bool, reason core.Reason, remaining ...int64) {
	t.Helper()
	check.Equal(t, what, outcomeOf(d), outcome{allowed, reason})
	results := d.Results()
	must.Equal(t, what+": results", len(results), len(remaining))
	for i, want := range remaining {
		check.Equal(t, fmt.Sprintf("%s: remaining of limit %q", what, results[i].Rule.Name), results[i].Remaining, want)
	}
}

// scripted is a store that answers as it is told.
type scripted struct {
	core.Store
	results []core.Result
}

func newScripted(results ...core.Result) *scripted {
	return &scripted{core.NewMemory(), results}
}

func (s *scripted) Take(_ context.Context, _ []core.Check, results []core.Result) error {
	copy(results, s.results)
	return nil
}

func (s *scripted) Peek(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.Take(ctx, checks, results)
}

func (s *scripted) Charge(context.Context, []core.Check, []core.Result) error { return nil }
func (s *scripted) Refund(context.Context, []core.Check, []core.Result) error { return nil }
func (s *scripted) Renew(context.Context, []core.Check, []core.Result) error  { return nil }
func (s *scripted) Reset(context.Context, []core.Check) error                 { return nil }

// decided returns the decision over limits that were answered so.
func decided(t testing.TB, limits []core.Limit, results ...core.Result) core.Decision {
	t.Helper()
	return limiterOn(t, newScripted(results...), limits...).AllowKey(context.Background(), "k", 1)
}

// binding returns the name of the limit that binds, or "".
func binding(d core.Decision) string {
	b, ok := d.Binding()
	if !ok {
		return ""
	}
	return b.Rule.Name
}

// inBubble runs a test in parallel with others, in a bubble: its clock moves only while all its goroutines wait.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// atOnce calls f in n goroutines, with their numbers, and waits for all.
func atOnce(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

// drained waits until all that requests have settled is told to the store.
func drained(t *testing.T, l *core.Limiter) {
	t.Helper()
	must.OK(t, drainThen(t, l, func() {}))
}

// drainThen is draining.Then within an hour.
func drainThen(t *testing.T, l *core.Limiter, begun func()) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	return draining.Then(ctx, l, begun)
}

var errDown = errors.New("connection refused")

// tag is what tests put into a request's context, to see it arrive at the store.
type tag struct{}

// flaky is a store in memory that can be out, and remembers how it was called.
type flaky struct {
	intercepted

	down  atomic.Bool
	hang  bool                      // down means no answer rather than an error
	asked func(ctx context.Context) // nil, or called first
	calls atomic.Int64

	mu   sync.Mutex
	ends time.Time // the deadline of the last call. Guarded by mu.
	seen any       // its context's tag. Guarded by mu.
	keys [][]byte  // of all calls. Guarded by mu.
}

func newFlaky(down bool) *flaky {
	s := new(flaky)
	s.intercepted = intercept(s.answers)
	s.OnEvent(func(core.Event) {}) // or each test would log
	s.down.Store(down)
	return s
}

func (s *flaky) answers(ctx context.Context, call string, checks []core.Check) error {
	if call == "Refund" || call == "Renew" {
		return nil
	}
	if s.asked != nil {
		s.asked(ctx)
	}
	s.calls.Add(1)
	s.mu.Lock()
	s.ends, _ = ctx.Deadline()
	s.seen = ctx.Value(tag{})
	for i := range checks {
		s.keys = append(s.keys, bytes.Clone(checks[i].Key))
	}
	s.mu.Unlock()
	switch {
	case s.down.Load() && s.hang:
		<-ctx.Done()
		return fmt.Errorf("no answer: %w", ctx.Err())
	case s.down.Load():
		return errDown
	}
	return nil
}

// deadline returns how long after now the last call had to be answered.
func (s *flaky) deadline(t testing.TB, now time.Time) time.Duration {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends.IsZero() {
		t.Fatal("the store was given a context without a deadline")
	}
	return s.ends.Sub(now)
}
