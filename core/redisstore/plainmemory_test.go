package redisstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/testclock"
)

// Takes of several token buckets of one key answer as in memory: up to 126 equal ones at once that fit
// in part, costs above the burst, bursts and rates that change, charges and refunds.
func TestPlainTakesAreDecidedLikeInMemory(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	whole, all := 0, 0 // groups of equal takes
	for seed := range long.Rounds[uint64](4, 100) {
		s := &plainSequence{
			T: t, client: client, prefix: redistest.Prefix(t), random: rand.New(rand.NewPCG(seed, 3)),
			memory: core.NewMemory(), now: 1_800_000_000_000_000,
		}
		testclock.Set(s.memory, func() int64 { return s.now })
		for i := range 2 + s.random.IntN(4) {
			s.rules = append(s.rules, s.rule(i))
		}
		for range 250 {
			s.step(seed)
		}
		whole, all = whole+s.whole, all+s.all
	}
	if whole < all/8 {
		t.Errorf("%d of %d takes were decided at once: too few to say something", whole, all)
	}
}

// plainSequence asks Redis and the memory store the same.
type plainSequence struct {
	*testing.T
	client *redis.Client
	prefix string
	random *rand.Rand
	memory *core.Memory
	now    int64
	rules  []*store.Rule

	charged    []store.Check // the last take that was granted
	results    []store.Result
	whole, all int
}

// rule returns a rule with the name of limit number i.
func (s *plainSequence) rule(i int) *store.Rule {
	quota := []int64{1, 7, 60, 97, 1000, 99_991, 1_000_003}[s.random.IntN(7)]
	window := []time.Duration{time.Second, 1500 * time.Millisecond, time.Minute, time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour}[s.random.IntN(6)]
	limit := core.Per(quota, window)
	switch s.random.IntN(4) {
	case 0:
		limit = limit.Burst(1 + s.random.Int64N(2*quota))
	case 1:
		limit = limit.Burst(1 + s.random.Int64N(quota)).Wait(min(window, time.Second))
	}
	r := mustRule(limit.Named(fmt.Sprint("limit", i)))
	return &r
}

func (s *plainSequence) step(seed uint64) {
	s.Helper()
	switch s.random.IntN(16) {
	case 0: // other numbers
		i := s.random.IntN(len(s.rules))
		s.rules[i] = s.rule(i)
	case 1, 2, 3, 4, 5, 6, 7:
		s.now += s.random.Int64N([]int64{10, 1e3, 1e6, 1e8, 1e10}[s.random.IntN(5)])
	case 8:
		if s.charged != nil { // half of it was already returned by time, or its limits have changed
			s.ask(seed, refund, s.charged, s.results, 1)
			s.charged = nil
		}
	case 9:
		s.ask(seed, charge, s.checks(), nil, 1)
	default:
		s.ask(seed, take, s.checks(), nil, []int{1, 1, 1, 2, 7, maxEqualJobs, maxEqualJobs + 3}[s.random.IntN(7)])
	}
}

func (s *plainSequence) checks() (checks []store.Check) {
	key := fmt.Append(nil, "k", s.random.IntN(2))
	for _, r := range s.rules {
		cost := 1 + s.random.Int64N(3)
		if s.random.IntN(20) == 0 {
			cost = 1 + s.random.Int64N(r.Burst+1)
		}
		checks = append(checks, store.Check{Key: key, Rule: r, Cost: cost})
	}
	s.random.Shuffle(len(checks), func(i, j int) { checks[i], checks[j] = checks[j], checks[i] })
	return checks
}

// ask asks both, Redis for all requests in one batch, and compares the answers.
func (s *plainSequence) ask(seed uint64, op operation, checks []store.Check, charged []store.Result, times int) {
	s.Helper()
	b := newBatch()
	b.clock = s.now
	for range times {
		j := newJob(op, 0)
		for i := range checks {
			at := int64(0)
			if op == refund {
				at = counting.ChargedAt(checks[i].Rule, checks[i].Cost, &charged[i])
			}
			j.add(i, &checks[i], at)
		}
		j.seal(s.prefix)
		b.jobs = append(b.jobs, j)
	}
	b.run(s.Context(), s.client, s.now)
	for n, j := range b.jobs {
		if j.err != nil {
			s.Fatal(j.err)
		}
		got, want := slices.Clone(charged), slices.Clone(charged)
		if op != refund {
			got, want = make([]store.Result, len(checks)), make([]store.Result, len(checks))
		}
		must.OK(s, j.readAnswer(checks, got))
		ask := s.memory.Take
		switch op {
		case charge:
			ask = s.memory.Charge
		case refund:
			ask = s.memory.Refund
		}
		must.OK(s, ask(s.Context(), checks, want))
		for i := range checks {
			if got[i] != want[i] {
				s.Fatalf("seed %d, operation %d, %d of %d equal requests, at %d, of %+v, cost %d:\n got %+v\nwant %+v",
					seed, op, n+1, times, s.now, checks[i].Rule.Numbers, checks[i].Cost, got[i], want[i])
			}
		}
		if n == 0 && op == take {
			s.all++
			if at, _ := j.IsWhole(j.reply); at {
				s.whole++
			}
		}
		if op == take && j.granted {
			s.charged, s.results = checks, got
		}
	}
}
