package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// runAtMost compares random sequences of AllowAtMost with the model: what is granted, what each
// limit says to it, and when one more unit fits.
func runAtMost(t *testing.T, newStore Factory, sequences uint64) {
	steps := long.Rounds(75, 150)
	for seed := range seeds(sequences) {
		t.Run(fmt.Sprintf("random sequence %d grants as many units as fit in the model", seed), func(t *testing.T) {
			t.Parallel()
			s := newBatches(t, newStore, seed)
			for range steps {
				s.step()
			}
		})
	}
	t.Run("batches by plan", func(t *testing.T) {
		t.Parallel()
		batchesByPlan(newRig(t, newStore))
	})
	t.Run("callers that compete are granted what is charged", func(t *testing.T) {
		t.Parallel()
		for name, limit := range Algorithms(100, time.Hour) {
			competing(newRig(t, newStore), name, limit)
		}
	})
}

// batches are one limiter, a model of its limits, and a clock that stands still in each step.
type batches struct {
	*rig
	model   *model
	rand    *rand.Rand
	limiter *core.Limiter
	rules   []core.Rule // of the limits
	atOnce  []core.Rule // the same without their queues
	shadow  []bool
	trace   []string
	wait    time.Duration
}

func newBatches(t *testing.T, newStore Factory, seed uint64) *batches {
	t.Helper()
	s := &batches{rig: newRig(t, newStore), model: newModel(), rand: rand.New(rand.NewPCG(seed, 2))}
	config := core.Config{Store: s.Store, Timeout: time.Minute}
	for i := range 1 + s.rand.IntN(3) {
		limit, atOnce := s.randomLimit()
		if s.rand.IntN(4) == 0 {
			block := core.Block{After: 2 + s.rand.Int64N(3), Within: time.Hour, For: 10 * time.Minute}
			limit, atOnce = limit.Penalty(block), atOnce.Penalty(block)
		}
		name := fmt.Sprint("limit-", i)
		limit, atOnce = limit.Named(name).By(keyfuncs.User("user")), atOnce.Named(name)
		s.shadow = append(s.shadow, i > 0 && s.rand.IntN(4) == 0)
		if s.shadow[i] {
			limit = limit.Shadow()
		}
		config.Limits = append(config.Limits, limit)
		s.rules, s.atOnce = append(s.rules, *rule(t, limit)), append(s.atOnce, *rule(t, atOnce))
	}
	l := must.Get(core.New(config))(t)
	s.limiter = l
	return s
}

// randomLimit returns a limit, and the same without its queue.
func (s *batches) randomLimit() (limit, atOnce core.Limit) {
	quota := pick(s.rand, []int64{1, 2, 7, 60, 97, 1000, 4999})
	window := pick(s.rand, []time.Duration{time.Second, 1500 * time.Millisecond, time.Minute, 24 * time.Hour})
	limit = core.Per(quota, window)
	switch s.rand.IntN(10) {
	case 0:
		limit = limit.Burst(pick(s.rand, []int64{1, 3, 20, 5000}))
	case 1:
		if limit = limit.FixedWindow(); quota%2 == 1 {
			limit = limit.FromFirstUse()
		}
	case 2:
		limit = limit.SlidingWindow()
	case 3:
		limit = limit.SlidingWindow().Jitter()
	case 4:
		limit = limit.SlidingLog()
	case 5:
		limit = pick(s.rand, modelCalendars)(quota)
	case 6:
		limit = core.Concurrent(quota).Lease(24 * time.Hour) // not renewed while the test runs
	case 7:
		return limit.LeakyBucket(10 * time.Second), limit.Burst(1)
	case 8:
		return limit.Burst(50).Wait(time.Minute), limit.Burst(50)
	}
	return limit, limit
}

// checks returns the checks of the limiter's limits.
func (s *batches) checks(rules []core.Rule, key string, cost int64) []core.Check {
	checks := make([]core.Check, len(rules))
	for i := range rules {
		checks[i] = core.Check{Key: []byte(key), Rule: &rules[i], Cost: cost, Shadow: s.shadow[i]}
	}
	return checks
}

func (s *batches) step() {
	s.Helper()
	user := pick(s.rand, []string{"a", "b"})
	key := keyfuncs.Encode("user", user)
	burst := s.atOnce[0].Burst
	n := pick(s.rand, []int64{1, 2, 3, 10, burst / 2, burst, burst + 1, 3 * burst, math.MaxInt64})
	switch what := s.rand.IntN(10); {
	case what < 5:
		s.atMost(user, key, max(n, 1))
	case what < 7: // others take units, also by queueing
		cost := min(n, max(burst/3, 1))
		s.log("take %d for %s", cost, key)
		checks := s.checks(s.rules, key, cost)
		got := s.takeAll(checks...)
		s.same(checks, got, s.model.take(checks, s.Micros(), true))
	default:
		d := pick(s.rand, []time.Duration{s.wait, s.wait, time.Microsecond, 100 * time.Millisecond, 10 * time.Second, time.Hour})
		s.log("%v pass", d)
		s.Advance(d)
	}
}

func (s *batches) atMost(user, key string, n int64) {
	s.Helper()
	s.log("at most %d for %s", n, key)
	now := s.Micros()
	fits := func(m int64) bool {
		for i, r := range s.model.take(s.checks(s.atOnce, key, m), now, false) {
			if !r.Allowed && !s.shadow[i] {
				return false
			}
		}
		return true
	}
	want := int64(sort.Search(int(min(n, 10_000)), func(m int) bool { return !fits(int64(m) + 1) }))

	granted, d := int64(0), core.Decision{}
	if s.rand.IntN(2) == 0 {
		granted, d = s.limiter.AllowAtMost(keyfuncs.Values{"user": user}, n)
	} else {
		granted, d = s.limiter.AllowKeyAtMost(context.Background(), key, n)
	}
	if granted != want || d.Allowed != (want > 0) {
		s.fail("granted %d of %d, allowed %v because %v, want %d", granted, n, d.Allowed, d.Reason, want)
	}
	checks := s.checks(s.atOnce, key, max(granted, 1))
	var got []core.Result
	for _, r := range d.Results() {
		got = append(got, r.Result)
	}
	s.same(checks, got, s.model.take(checks, now, true))

	wait := time.Duration(0) // until one more unit fits
	if granted < n {
		for i, r := range s.model.take(s.checks(s.atOnce, key, 1), now, false) {
			if !s.shadow[i] {
				wait = max(wait, r.RetryAfter)
			}
		}
	}
	if d.RetryAfter != wait {
		s.fail("granted %d of %d: RetryAfter %v, want %v", granted, n, d.RetryAfter, wait)
	}
	s.wait = wait
}

func (s *batches) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%d: %s", s.Micros(), fmt.Sprintf(format, args...)))
}

func (s *batches) fail(format string, args ...any) {
	s.Helper()
	for i := range s.rules {
		s.Logf("%s, shadow %v", describe(&s.rules[i]), s.shadow[i])
	}
	for _, line := range s.trace[max(len(s.trace)-25, 0):] {
		s.Log(line)
	}
	s.Fatalf(format, args...)
}

func (s *batches) same(checks []core.Check, got, want []core.Result) {
	s.Helper()
	for i := range got {
		if got[i] != want[i] {
			s.fail("%s, cost %d, key %s\n got %s at %d\nwant %s at %d", describe(checks[i].Rule), checks[i].Cost, checks[i].Key, show(got[i]), got[i].At, show(want[i]), want[i].At)
		}
	}
}

// batchesByPlan takes batches of requests, for which keys, tiers and conditions apply.
func batchesByPlan(r *rig) {
	r.Helper()
	perTenant := core.PerHour(10).By(keyfuncs.Tenant("tenant")).Named("tenant").Tiers(func(r keyfuncs.Request) core.Limit {
		if r.Value("plan") == "pro" {
			return core.PerHour(100)
		}
		return core.Limit{}
	})
	large := core.PerHour(40).By(keyfuncs.Tenant("tenant")).Named("large").
		When(keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("kind") == "large" }))
	l := must.Get(core.New(core.Config{Store: r.Store, Limits: []core.Limit{perTenant, large}, Timeout: time.Minute}))(r)
	for _, tt := range []struct {
		values keyfuncs.Values
		want   int64
	}{
		{keyfuncs.Values{"tenant": "small"}, 10},
		{keyfuncs.Values{"tenant": "small"}, 0},
		{keyfuncs.Values{"tenant": "acme", "plan": "pro", "kind": "large"}, 40},
		{keyfuncs.Values{"tenant": "acme", "plan": "pro", "kind": "large"}, 0},
		{keyfuncs.Values{"tenant": "acme", "plan": "pro"}, 50},
		{keyfuncs.Values{"tenant": "acme", "plan": "pro"}, 10},
		{keyfuncs.Values{"tenant": "acme", "plan": "pro"}, 0},
	} {
		if granted, d := l.AllowAtMost(tt.values, 50); granted != tt.want || d.Allowed != (tt.want > 0) || (d.RetryAfter > 0) != (granted < 50) {
			r.Errorf("%v: granted %d of 50, want %d: %v", tt.values, granted, tt.want, d)
		}
	}
}

// competing has callers take batches until nothing is left. What they are granted is what is
// charged, and one that comes afterwards is granted the rest.
func competing(r *rig, name string, limit core.Limit) {
	r.Helper()
	l := must.Get(core.New(core.Config{Store: r.Store, Limits: []core.Limit{limit.By(keyfuncs.Everyone())}, Timeout: time.Minute}))(r)
	var mu sync.Mutex
	var grants []int64
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 3 {
				granted, _ := l.AllowKeyAtMost(context.Background(), "k", int64(5+i))
				mu.Lock()
				grants = append(grants, granted)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	sum := int64(0)
	for _, granted := range grants {
		sum += granted
	}
	rest, _ := l.AllowKeyAtMost(context.Background(), "k", 1000)
	if sum > 100 || sum+rest != 100 || slices.Max(grants) > 12 {
		r.Errorf("%s: 24 callers were granted %d units, and one afterwards %d, want 100 together: %v", name, sum, rest, grants)
	}
	if granted, d := l.AllowKeyAtMost(context.Background(), "k", 1); granted != 0 || d.Allowed || d.RetryAfter <= 0 {
		r.Errorf("%s: of nothing %d are granted: %v", name, granted, d)
	}
}
