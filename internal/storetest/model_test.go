package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/core"
)

// modelStore lets the model take the suite that the stores take.
type modelStore struct {
	core.Registry

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
	if err := core.ValidChecks(checks, results); err != nil {
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

func (s *modelStore) Charge(_ context.Context, checks []core.Check, results []core.Result) error {
	if err := core.ValidChecks(checks, results); err != nil {
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
			return core.ValidChecks(checks, make([]core.Result, len(checks)))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.reset(checks)
	return nil
}

// The model is held to what it judges the stores by.
func TestModel(t *testing.T) {
	t.Parallel()
	runTable(t, func(_ *testing.T, clock *Clock) core.Store {
		return &modelStore{model: newModel(), clock: clock}
	})
}
