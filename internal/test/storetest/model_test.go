package storetest

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// modelStore is a store that asks the model.
type modelStore struct {
	store.Base

	mu    sync.Mutex
	model *model
	clock *Clock
}

func (s *modelStore) Take(_ context.Context, checks []core.Check, results []core.Result) error {
	return s.decide(checks, results, true)
}

func (s *modelStore) Peek(_ context.Context, checks []core.Check, results []core.Result) error {
	return s.decide(checks, results, false)
}

func (s *modelStore) decide(checks []core.Check, results []core.Result, take bool) error {
	if err := counting.ValidChecks(checks, results); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(results, s.model.take(checks, s.clock.Micros(), take))
	return nil
}

func (s *modelStore) Refund(_ context.Context, checks []core.Check, results []core.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(results, s.model.refund(checks, results, s.clock.Micros()))
	return nil
}

func (s *modelStore) Renew(_ context.Context, checks []core.Check, results []core.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(results, s.model.renew(checks, results, s.clock.Micros()))
	return nil
}

func (s *modelStore) Restore(_ context.Context, checks []core.Check, from []counting.Restoration, results []core.Result) error {
	if err := counting.ValidRestore(checks, from, results); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(results, s.model.restore(checks, from, s.clock.Micros()))
	return nil
}

func (s *modelStore) Charge(_ context.Context, checks []core.Check, results []core.Result) error {
	if err := counting.ValidChecks(checks, results); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	copy(results, s.model.charge(checks, s.clock.Micros()))
	return nil
}

func (s *modelStore) Reset(_ context.Context, checks []core.Check) error {
	for _, c := range checks {
		if c.Rule == nil {
			return counting.ValidChecks(checks, make([]core.Result, len(checks)))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.reset(checks)
	return nil
}

func (s *modelStore) Blocks(_ context.Context, rules []*core.Rule) iter.Seq2[store.Blocked, error] {
	return func(yield func(store.Blocked, error) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, b := range s.model.blocks(rules, s.clock.Micros()) {
			if !yield(b, nil) {
				return
			}
		}
	}
}

func (s *modelStore) Block(_ context.Context, checks []core.Check, d time.Duration) error {
	return s.eachBlock(errors.Join(counting.ValidKeys(checks), store.ValidBlockTime(d)), checks, func(c *core.Check) {
		s.model.block(c, s.clock.Micros(), d)
	})
}

func (s *modelStore) Unblock(_ context.Context, checks []core.Check) error {
	return s.eachBlock(counting.ValidKeys(checks), checks, s.model.lift)
}

func (s *modelStore) eachBlock(err error, checks []core.Check, change func(*core.Check)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range checks {
		if err == nil {
			change(&checks[i])
		}
	}
	return err
}

// The model passes the table that the stores must pass.
func TestModel(t *testing.T) {
	t.Parallel()
	runTable(t, func(_ *testing.T, clock *Clock) core.Store {
		s := &modelStore{model: newModel(), clock: clock}
		counting.SetRestorer(s, s)
		return s
	})
}

// The suite has a row for each algorithm, and its random sequences draw each.
func TestTheSuiteHasEveryAlgorithm(t *testing.T) {
	t.Parallel()
	rows := map[store.Algorithm]bool{store.Calendar: len(modelCalendars) > 0, store.Ledger: len(ledgerTable) > 0}
	for _, limit := range Algorithms(1, time.Minute) {
		rows[rule(t, limit).Algorithm] = true
	}
	rows[rule(t, core.Concurrent(1)).Algorithm] = true // concurrency.go
	drawn := map[store.Algorithm]bool{}
	s := &sequence{rig: &rig{T: t}, rand: rand.New(rand.NewPCG(1, 1)), lower: map[string][]*core.Rule{}, books: true}
	for range 1000 {
		drawn[s.randomRule("any").Algorithm] = true
	}
	for _, algorithm := range counting.Algorithms() {
		if !rows[algorithm] {
			t.Errorf("no row for %v", algorithm)
		}
		if !drawn[algorithm] {
			t.Errorf("random sequences never change a limit to %v: see randomRule", algorithm)
		}
	}
}
