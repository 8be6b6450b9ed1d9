package script

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
)

// rule returns the numbers of a limit that is known to be good.
func rule(t *testing.T, name string, n store.Numbers) *store.Rule {
	t.Helper()
	r := must.Get(store.NewRule(name, n))(t)
	return &r
}

// The limits of a key stand in the order of their ids, in a group as in the
// value, in whatever order they are asked for; a key's stand together.
func TestChecksOfAKeyStandInTheOrderOfTheirLimits(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	var rules []*store.Rule
	for i, a := range []store.Algorithm{store.TokenBucket, store.FixedWindow, store.SlidingWindow, store.SlidingLog, store.Concurrency} {
		rules = append(rules, rule(t, fmt.Sprint("n", i), store.Numbers{
			Algorithm: a, Quota: 60, Window: time.Minute, Block: store.Block{After: 1, Within: time.Minute, For: time.Minute},
		}))
	}
	for range 200 {
		var checks []store.Check
		for range 1 + random.IntN(5) {
			checks = append(checks, store.Check{Key: []byte{byte('a' + random.IntN(3))}, Rule: rules[random.IntN(len(rules))], Cost: 1})
		}
		if counting.ValidChecks(checks, make([]store.Result, len(checks))) != nil {
			continue // a limit twice
		}
		var g, sorted Group
		g.Begin(Take)
		for i := range checks {
			g.Add(i, &checks[i], 0)
			g.AddPenalty(i, &checks[i], time.Minute)
		}
		sorted.Begin(Take)
		for _, i := range g.Checks {
			if i < 0 {
				sorted.AddPenalty(^i, &checks[^i], time.Minute)
			} else {
				sorted.Add(i, &checks[i], 0)
			}
		}
		if string(g.data) != string(sorted.data) {
			t.Fatalf("%q\n%q", g.data, sorted.data)
		}
		for n, p := range g.places {
			if n > 0 && (p.key < g.places[n-1].key || p.key == g.places[n-1].key && p.limit < g.places[n-1].limit) {
				t.Fatalf("%+v", g.places)
			}
		}
	}
}

// Between two periods nothing is converted, or each first request of a key would
// take the long way through the script.
func TestCalendarHeadDoesNotTellThePeriod(t *testing.T) {
	t.Parallel()
	head := func(quota int64, p store.Period) string {
		r := rule(t, "default", store.Numbers{Algorithm: store.Calendar, Quota: quota, Calendar: p})
		return string(appendHead(nil, r, r.Integers))
	}
	month := store.Period{Unit: store.CalendarMonth, Day: 1, Location: time.UTC}
	if a, b := head(10, month), head(20, month); a != b {
		t.Errorf("heads of two quotas differ: %x and %x", a, b)
	}
	if head(10, month) == head(10, store.Period{Unit: store.CalendarMonth, Day: 2, Location: time.UTC}) {
		t.Error("heads of two kinds of month are equal")
	}
}

// appendHead knows the record of every algorithm.
func TestEveryAlgorithmHasARecord(t *testing.T) {
	t.Parallel()
	for _, algorithm := range counting.Algorithms() {
		n := store.Numbers{Algorithm: algorithm, Quota: 60, Window: time.Minute}
		if algorithm == store.Calendar || algorithm == store.Ledger {
			n = store.Numbers{Algorithm: algorithm, Quota: 60, Calendar: store.Period{Unit: store.CalendarDay, Location: time.UTC}}
		}
		r := rule(t, "default", n)
		head := appendHead(nil, r, r.Integers)
		if int(head[0]) != len(head)-1 || store.Algorithm(head[8]>>4) != algorithm {
			t.Errorf("%v: head %x", algorithm, head)
		}
	}
}
