package regionsim

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// Run runs a simulation, and returns what it measured of each design. It fails the test if the simulation can't run.
func Run(t *testing.T, config Config) (outcomes map[Design]Outcome) {
	t.Helper()
	if config.Designs == nil {
		config.Designs = []Design{Static, Slow, Fast, Leased, Overdraw}
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := newSimulation(config)
		if err == nil {
			outcomes, err = s.run()
		}
		if err != nil {
			t.Fatalf("seed %d: %v", config.Seed, err)
		}
	})
	return outcomes
}

// simulation is a simulation in progress.
type simulation struct {
	*Config
	load    *load
	names   [][]byte // of keys
	exact   *simple
	simples map[Design]*simple
	leased  map[Design]*leased
}

func newSimulation(config Config) (*simulation, error) {
	c := &config
	rule, err := c.Limit.Rule()
	if err != nil {
		return nil, err
	}
	window := rule.Window
	if rule.Algorithm == store.Calendar {
		window = 24 * time.Hour
	}
	s := &simulation{
		Config: c, load: newLoad(c, rule.Quota, window), simples: map[Design]*simple{}, leased: map[Design]*leased{},
	}
	keyOf := map[string]int{}
	for key := range c.Keys {
		s.names = append(s.names, strconv.AppendInt([]byte("key:"), int64(key), 10))
		keyOf[string(s.names[key])] = key
	}
	if s.exact, err = newSimple(c, &rule, 1, 1); err != nil {
		return nil, err
	}
	for _, d := range c.Designs {
		if err := s.add(d, &rule, keyOf); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *simulation) add(d Design, rule *store.Rule, keyOf map[string]int) (err error) {
	switch d {
	case Exact: // is there
	case Static:
		s.simples[d], err = newSimple(s.Config, rule, s.Regions, s.Regions)
	case Slow, Fast:
		every := 5 * time.Second
		if d == Fast {
			every = 100 * time.Millisecond
		}
		if s.simples[d], err = newSimple(s.Config, rule, s.Regions, 1); err == nil {
			s.simples[d].counts = newCounts(s.Config, time.Now(), s.names, every)
		}
	case Leased:
		s.leased[d], err = newLeased(s.Config, rule, 0, keyOf)
	case Overdraw:
		s.leased[d], err = newLeased(s.Config, rule, rule.Quota/10, keyOf)
	}
	return err
}

func (s *simulation) run() (map[Design]Outcome, error) {
	began := time.Now()
	for number := uint64(1); ; number++ {
		at, key, region := s.load.next()
		if at >= s.Duration {
			break
		}
		time.Sleep(at - time.Since(began)) // until all that happens before the request has happened
		r := request{
			Context: context.Background(), number: s.Seed<<40 + number, key: key, region: region, name: s.names[key],
			sent: time.Now(), deadline: began.Add(at + s.Deadline),
		}
		if err := s.request(r); err != nil {
			return nil, err
		}
	}
	time.Sleep(time.Minute) // for the leases that are on their way
	outcomes := map[Design]Outcome{Exact: s.exact.meter.outcome()}
	for d, simple := range s.simples {
		outcomes[d] = simple.meter.outcome()
	}
	for d, leased := range s.leased {
		o, err := leased.end(s.names)
		if err != nil {
			return nil, err
		}
		outcomes[d] = o
	}
	time.Sleep(time.Minute) // until nobody looks after home any more
	return outcomes, nil
}

// request has all designs decide a request.
func (s *simulation) request(r request) (err error) {
	now := time.Now().UnixMicro()
	if r.exact, err = s.exact.ask(&r); err != nil {
		return err
	}
	s.exact.meter.answered(r.key, r.region, r.name, now, r.exact, r.exact, 0)
	for _, d := range s.Designs {
		if simple := s.simples[d]; simple != nil {
			granted, err := simple.ask(&r)
			if err != nil {
				return err
			}
			simple.meter.answered(r.key, r.region, r.name, now, granted, r.exact, 0)
		}
		if leased := s.leased[d]; leased != nil {
			leased.begin(r)
		}
	}
	return nil
}

// Designs returns the designs of outcomes in order.
func Designs(outcomes map[Design]Outcome) []Design {
	var all []Design
	for d := range outcomes {
		all = append(all, d)
	}
	slices.Sort(all)
	return all
}
