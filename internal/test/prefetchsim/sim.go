package prefetchsim

// A simulation: its settings, its outcome, the load, and the account of who holds
// what.

import (
	"context"
	"math"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// Config holds the settings of a simulation.
type Config struct {
	Limit     core.Limit
	Instances int
	Fraction  float64
	MaxAge    time.Duration
	Load      float64       // requests per unit of quota, on average
	Phase     time.Duration // how long each load lasts: twice the average, hardly any, the average; then other instances have it
	Duration  time.Duration // of simulated time
	Loss      time.Duration // between two instances that die and are replaced; 0 for none
	Skew      time.Duration // how far instances' clocks are off, at most
	Drift     float64       // by how much they run too fast or slow, at most, as a part of 1
	Delay     time.Duration // by how much answers and timers are late, at most
	Seed      uint64
}

// Outcome is what a simulation measured, in units. Over and Under compare at each
// moment what was granted until then with an exact account of the limit, which is
// charged at the moments of the grants.
type Outcome struct {
	Requests int64
	Granted  int64
	Exact    int64 // granted by an exact limiter that was asked the same
	Calls    int64 // calls of the store that charged or returned something
	Lost     int64 // units that instances held when they died

	Over       int64 // the most that was granted beyond the limit
	OverBound  int64 // the stated bound of Over
	Under      int64 // the most that the limit had free when a request was denied
	UnderBound int64 // the most that was prefetched or lost when a request was denied
	Prefetched int64 // the most that was prefetched at once, units on their way back included
	Held       int64 // the most that could be spent at once
	HeldBound  int64 // the stated bound of Held
	Broken     int64 // denials when more was free than was prefetched or lost
}

// simulation is a simulation in progress. One goroutine runs it.
type simulation struct {
	Config
	rule   *core.Rule
	rand   *rand.Rand
	now    int64 // nanoseconds
	events events
	out    Outcome

	store exact // the simulated store
	judge exact // charged with each unit when it was granted
	ideal exact // an exact limiter that is asked the same

	held       int64 // units that instances can spend, or could when they were last looked at
	prefetched int64 // units that live instances were charged, and have neither spent nor returned
	lost       int64 // units that were charged, and neither granted nor given back, as long as they count
	lostAt     int64 // when the last unit was lost, in microseconds

	instances []*instance
	weights   []float64 // of the load, cumulative, by rank
	shift     int       // by how much ranks are shifted among the instances
}

// epoch is when simulations begin, in microseconds.
const epoch = 1_700_000_000_000_000

// Run runs a simulation.
func Run(config Config) (Outcome, error) {
	rule, err := config.Limit.Rule()
	if err != nil {
		return Outcome{}, err
	}
	s := &simulation{Config: config, rule: &rule, rand: rand.New(rand.NewPCG(config.Seed, 1))}
	for _, x := range []*exact{&s.store, &s.judge, &s.ideal} {
		*x = exact{rule: &rule, now: epoch}
		x.move(epoch)
	}
	total := 0.0
	for i := range config.Instances {
		total += 1 / float64(i+1) // Zipf's law
		s.weights = append(s.weights, total)
		s.instances = append(s.instances, s.newInstance())
	}
	s.bounds()
	s.run()
	s.out.OverBound = min(s.out.OverBound, s.out.Prefetched)
	return s.out, nil
}

// bounds computes what the documentation of redisstore.Prefetch states.
func (s *simulation) bounds() {
	refilled := int64(0) // while a slice lasts
	if s.rule.Algorithm == store.TokenBucket {
		perNano := float64(s.rule.Quota) / float64(s.rule.Window)
		refilled = int64(math.Ceil(min(perNano*float64(s.MaxAge), float64(s.rule.Burst)/8)))
		s.out.OverBound = refilled
	}
	s.out.HeldBound = int64(math.Ceil((1 - math.Pow(1-s.Fraction, float64(s.Instances))) * float64(s.rule.Burst+refilled)))
}

func (s *simulation) run() {
	end := int64(s.Duration)
	mean := float64(s.rule.Window) / float64(s.rule.Quota) / s.Load // nanoseconds between requests
	if s.Loss > 0 {
		s.planLoss()
	}
	phase := int64(s.Phase)
	for {
		factor := [...]float64{2, 0.02, 1}[s.now/phase%3]
		s.shift = int(s.now / (3 * phase)) // the load moves to other instances
		next := s.now + int64(s.rand.ExpFloat64()*mean/factor) + 1
		if next >= end {
			return
		}
		s.events.runUntil(next, func(t int64) { s.now = t })
		s.now = next
		s.request()
	}
}

// request sends a request to an instance, and accounts for the answer.
func (s *simulation) request() {
	rank := sort.SearchFloat64s(s.weights, s.rand.Float64()*s.weights[len(s.weights)-1])
	i := s.instances[(rank+s.shift*7)%len(s.instances)]
	checks := []core.Check{{Key: []byte("hot"), Rule: s.rule, Cost: 1}}
	var results [1]core.Result
	if err := i.prefetcher.Take(context.Background(), checks, results[:]); err != nil {
		panic(err) // the simulated store does not fail
	}
	s.look(i, &checks[0])
	i.waits = 0
	s.out.Requests++
	now := s.micros()
	s.ideal.move(now)
	if s.ideal.free() >= 1 {
		s.ideal.charge(1)
		s.out.Exact++
	}
	s.judge.move(now)
	if !results[0].Charged {
		s.denied()
		return
	}
	s.out.Granted++
	s.judge.charge(1)
	s.out.Over = max(s.out.Over, -s.judge.free())
	i.held--
	s.prefetched--
}

// look updates the account of what instances hold. For the others it has what they
// held when they were last asked. If that gives a new maximum, it looks at all.
func (s *simulation) look(i *instance, c *core.Check) {
	h := i.prefetcher.Held(c)
	s.held += h - i.spendable
	i.spendable = h
	if s.held > s.out.Held {
		s.held = 0
		for _, i := range s.instances {
			i.spendable = i.prefetcher.Held(c)
			s.held += i.spendable
		}
		s.out.Held = max(s.out.Held, s.held)
	}
}

// denied compares what was free with what was prefetched or lost.
func (s *simulation) denied() {
	s.moveStore()
	free := max(s.judge.free(), 0)
	s.out.Under = max(s.out.Under, free)
	s.out.UnderBound = max(s.out.UnderBound, s.prefetched+s.lost)
	if free > s.prefetched+s.lost {
		s.out.Broken++
	}
}

// moveStore brings the store to now, and drops units that do not count any more.
func (s *simulation) moveStore() {
	start := s.store.start
	s.store.move(s.micros())
	if s.store.emptiedAt > s.lostAt || s.rule.Algorithm == store.SlidingWindow && s.store.start > s.lostAt+s.rule.Window.Microseconds() {
		s.lost = 0
	}
	if s.rule.Algorithm == store.FixedWindow && s.store.start != start { // units of the window before are neither spent nor returned
		s.lost, s.prefetched = 0, 0
		for _, i := range s.instances {
			i.held = 0
		}
	}
}

func (s *simulation) lose(units int64) {
	s.lost += units
	s.lostAt = s.store.now
}

// micros is the store's time.
func (s *simulation) micros() int64 { return max(epoch+s.now/1000, s.store.now) }

// planLoss plans the death of a random instance, which loses what it holds.
func (s *simulation) planLoss() {
	s.events.plan(s.now+int64(s.rand.ExpFloat64()*float64(s.Loss)), func() {
		rank := sort.SearchFloat64s(s.weights, s.rand.Float64()*s.weights[len(s.weights)-1])
		n := (rank + s.shift*7) % len(s.instances)
		dead := s.instances[n]
		dead.dead = true
		s.moveStore()
		s.prefetched -= dead.held
		s.lose(dead.held)
		s.out.Lost += dead.held
		s.held -= dead.spendable
		s.instances[n] = s.newInstance()
		s.planLoss()
	})
}
