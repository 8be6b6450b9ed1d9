package compose_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// catalogOf is a catalog of limits per hour, by their number of units.
func catalogOf(t *testing.T, store core.Store, observer core.Observer, units ...int64) *compose.Catalog {
	t.Helper()
	return must.Get(compose.NewCatalog(core.Config{Store: store, Observe: observer, Limits: hourly(units...)}))(t)
}

func hourly(units ...int64) (all []core.Limit) {
	for i, n := range units {
		all = append(all, core.PerHour(n).FixedWindow().Named(fmt.Sprintf("limit-%d", i)))
	}
	return all
}

func asks(all ...compose.Entry) []compose.Entry { return all }

func askOf(limit int, key string, cost int64) compose.Entry {
	return compose.Entry{Limit: limit, Key: []byte(key), Cost: cost}
}

// decided returns whether a call is allowed, and what each limit has left, or -1 if it denies.
func decided(c *compose.Catalog, how compose.How, all []compose.Entry) (bool, []int64) {
	var d core.Decision
	c.Decide(context.Background(), how, all, &d)
	var left []int64
	for _, r := range d.Results() {
		if !r.Allowed {
			r.Remaining = -1
		}
		left = append(left, r.Remaining)
	}
	return d.Allowed, left
}

func wantDecided(t *testing.T, c *compose.Catalog, how compose.How, all []compose.Entry, allowed bool, left ...int64) {
	t.Helper()
	got, have := decided(c, how, all)
	check.All(t, fmt.Sprint(all, ": allowed and left"), []any{got, have}, allowed, left)
}

func TestCatalogDecidesTogether(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, core.NewMemory(), nil, 5, 2, 100)
	together := compose.How{}
	wantDecided(t, c, together, asks(askOf(0, "a", 1), askOf(1, "a", 1)), true, 4, 1)
	wantDecided(t, c, together, asks(askOf(0, "a", 1), askOf(0, "b", 1)), true, 3, 4) // one limit, two keys
	wantDecided(t, c, together, asks(askOf(0, "a", 1), askOf(1, "a", 2)), false, 3, -1)
	wantDecided(t, c, together, asks(askOf(0, "a", 1), askOf(1, "a", 1)), true, 2, 0)
	wantDecided(t, c, together, asks(askOf(0, "a", 1), askOf(1, "a", 0)), false, 2, -1) // a cost of 0 asks for room
	wantDecided(t, c, together, asks(askOf(0, "a", 2)), true, 0)                        // which was given back
	wantDecided(t, c, compose.How{Apart: true}, asks(askOf(2, "a", 1), askOf(1, "a", 1)), false, 99, -1)
	wantDecided(t, c, together, asks(askOf(2, "a", 1)), true, 98)
}

func TestCatalogAlternatives(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, core.NewMemory(), nil, 100, 1, 2)
	all := asks(askOf(0, "a", 1), askOf(1, "a", 1), askOf(2, "a", 1))
	all[1].AnyOf, all[2].AnyOf = true, true
	wantDecided(t, c, compose.How{}, all, true, 99, 0, 1)
	wantDecided(t, c, compose.How{}, all, true, 98, -1, 0)
	wantDecided(t, c, compose.How{}, all, false, 98, -1, -1) // what the first was charged is given back
	wantDecided(t, c, compose.How{}, asks(askOf(0, "a", 1)), true, 97)
}

func TestCatalogSpent(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, core.NewMemory(), nil, 100, 10)
	all := asks(askOf(0, "a", 50), askOf(1, "a", 50))
	all[0].Spent, all[1].Spent = true, true
	wantDecided(t, c, compose.How{}, all, false, 50, -1)
	wantDecided(t, c, compose.How{}, asks(askOf(0, "a", 1)), true, 49)
	wantDecided(t, c, compose.How{}, asks(askOf(1, "a", 0)), false, -1)
}

// Spent units are charged where nothing is denied, too: if another alternative has room, or the limit is
// in shadow mode. Otherwise a limit that answers say is used up would never be.
func TestCatalogSpentWithoutADenial(t *testing.T) {
	t.Parallel()
	limits := hourly(3, 1000, 3)
	limits[2] = limits[2].Shadow()
	c := must.Get(compose.NewCatalog(core.Config{Store: core.NewMemory(), Limits: limits}))(t)
	spent := func(limit int, anyOf bool) compose.Entry {
		e := askOf(limit, "a", 5)
		e.Spent, e.AnyOf = true, anyOf
		return e
	}
	for _, how := range []compose.How{{}, {Apart: true}} {
		wantDecided(t, c, how, asks(spent(0, true), spent(1, true), spent(2, false)), true, -1, 995, -1)
		for _, i := range []int{0, 2} {
			wantDecided(t, c, how, asks(askOf(i, "a", 0)), i == 2, -1) // nothing remains
			if _, err := c.GiveBack(t.Context(), how, asks(askOf(i, "a", 5))); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.GiveBack(t.Context(), how, asks(askOf(1, "a", 5))); err != nil {
			t.Error(err)
		}
	}
	// Units that are not spent are charged nothing where they do not fit.
	all := asks(askOf(0, "b", 5), askOf(1, "b", 5), askOf(2, "b", 5))
	all[0].AnyOf, all[1].AnyOf = true, true
	wantDecided(t, c, compose.How{}, all, true, -1, 995, -1)
	wantDecided(t, c, compose.How{}, asks(askOf(0, "b", 3)), true, 0)
	wantDecided(t, c, compose.How{}, asks(askOf(2, "b", 3)), true, 0)
}

func TestCatalogGivesBack(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, core.NewMemory(), nil, 10)
	wantDecided(t, c, compose.How{}, asks(askOf(0, "a", 4)), true, 6)
	for _, want := range []int64{9, 10} { // never beyond
		results, err := c.GiveBack(t.Context(), compose.How{}, asks(askOf(0, "a", 3)))
		check.OK(t, err)
		check.Equal(t, "left after what was given back", results[0].Remaining, want)
	}
}

// brokenStore fails.
type brokenStore struct{ core.Store }

func (brokenStore) Take(context.Context, []core.Check, []core.Result) error {
	return errors.New("broken")
}

func (brokenStore) Peek(context.Context, []core.Check, []core.Result) error {
	return errors.New("broken")
}

// In an outage the process decides by the same rules.
func TestCatalogInAnOutage(t *testing.T) {
	t.Parallel()
	memory := core.NewMemory()
	memory.OnEvent(func(core.Event) {})
	c := catalogOf(t, brokenStore{memory}, nil, 100, 1, 2)
	all := asks(askOf(0, "a", 1), askOf(1, "a", 1), askOf(2, "a", 1))
	all[1].AnyOf, all[2].AnyOf = true, true
	wantDecided(t, c, compose.How{}, all, true, 99, 0, 1)
	wantDecided(t, c, compose.How{}, all, true, 98, -1, 0)
	wantDecided(t, c, compose.How{}, all, false, 98, -1, -1)
	wantDecided(t, c, compose.How{Apart: true}, asks(askOf(0, "b", 1), askOf(1, "a", 1)), false, 99, -1)
	if _, err := c.GiveBack(t.Context(), compose.How{}, all); err == nil {
		t.Error("GiveBack hides that the store is out")
	}
}

// seenKeys notes the keys of decisions and what is given back.
type seenKeys struct {
	core.NopObserver
	keys []string
}

func (s *seenKeys) Decided(_ context.Context, o *core.Observation) {
	for i := range o.Decision.Results() {
		s.keys = append(s.keys, string(o.Key(i)))
	}
}

func (s *seenKeys) Settled(settled core.Settlement) {
	s.keys = append(s.keys, fmt.Sprint(string(settled.Key()), settled.Units))
}

func TestCatalogIsObserved(t *testing.T) {
	t.Parallel()
	seen := new(seenKeys)
	c := catalogOf(t, core.NewMemory(), seen, 5, 5)
	decided(c, compose.How{}, asks(askOf(0, "a", 1), askOf(0, "b", 1), askOf(1, "a", 1)))
	_, _ = c.GiveBack(t.Context(), compose.How{}, asks(askOf(0, "c", 1)))
	check.Equal(t, "keys", fmt.Sprint(seen.keys), "[a b a c-1]")
}

func TestNextCatalog(t *testing.T) {
	t.Parallel()
	memory := core.NewMemory()
	before := catalogOf(t, memory, nil, 5)
	wantDecided(t, before, compose.How{}, asks(askOf(0, "a", 3)), true, 2)
	after := must.Get(before.Next(core.Config{Store: memory, Limits: hourly(10, 20)}))(t)
	wantDecided(t, after, compose.How{}, asks(askOf(0, "a", 1), askOf(1, "a", 1)), true, 6, 19)
	if _, err := after.Next(core.Config{Store: core.NewMemory()}); err == nil {
		t.Error("a catalog has changed its store")
	}
	if _, err := after.Next(core.Config{Store: memory, Limits: append(hourly(1), hourly(1)...)}); err == nil {
		t.Error("two limits have one name")
	}
	if empty, err := after.Next(core.Config{Store: memory}); err != nil {
		t.Error(err)
	} else if allowed, _ := decided(empty, compose.How{}, nil); !allowed {
		t.Error("nothing denies")
	}
}

// A catalog has more limits than a limiter, and numbers of its own for a call.
func TestCatalogOfManyLimits(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := catalogOf(t, core.NewMemory(), nil, make10k()...)
	if took := time.Since(began); took > time.Minute { // for a busy machine
		t.Errorf("10,000 limits took %v", took)
	}
	own := must.Get(core.PerHour(3).FixedWindow().Named("limit-9999").Rule())(t)
	ask := askOf(9999, "\x00 odd {key}", 1)
	ask.Rule = &own
	wantDecided(t, c, compose.How{}, asks(ask), true, 2)
}

func make10k() []int64 {
	all := make([]int64, 10_000)
	for i := range all {
		all[i] = 100
	}
	return all
}
