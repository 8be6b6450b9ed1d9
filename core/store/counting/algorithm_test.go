package counting

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
)

// ruleOf returns a rule that counts by an algorithm.
func ruleOf(t *testing.T, a store.Algorithm) *store.Rule {
	t.Helper()
	n := store.Numbers{Algorithm: a, Quota: 7, Window: time.Minute}
	if a == store.Calendar || a == store.Ledger {
		n = store.Numbers{Algorithm: a, Quota: 7, Calendar: store.Period{Unit: store.CalendarDay, Location: time.UTC}}
	}
	r := must.Get(store.NewRule(a.String(), n))(t)
	return &r
}

// An algorithm has a number, an entry in the table, a case in each switch of
// dispatch.go, and a name that is no other's.
func TestNoAlgorithmIsForgotten(t *testing.T) {
	t.Parallel()
	names := map[string]store.Algorithm{"unknown algorithm": 0}
	for a := range LastAlgorithm + 1 {
		c := algorithms[a]
		if reserved := a == 0 || a == PenaltyRecord || a == MarkRecord || a == ManualRecord || a == ShareRecord; reserved != (c == nil) {
			t.Errorf("algorithm %d: reserved %v, in the table %v", a, reserved, c != nil)
		}
		if c == nil {
			continue
		}
		if other, taken := names[a.String()]; taken {
			t.Errorf("algorithms %d and %d are both called %q", a, other, a)
		}
		names[a.String()] = a
		if !slices.Contains(Algorithms(), a) {
			t.Errorf("Algorithms leaves out %v", a)
		}
		t.Run(a.String(), func(t *testing.T) { dispatches(t, ruleOf(t, a), c) })
	}
}

// dispatches compares each switch of dispatch.go with the table, on random buckets.
func dispatches(t *testing.T, r *store.Rule, c counting) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(r.Algorithm)))
	now := int64(1_800_000_000_000_000)
	var b, direct Bucket
	copied := func() *Bucket {
		direct = b
		direct.Log = slices.Clone(b.Log)
		return &direct
	}
	wrong := map[string]bool{} // each is reported once
	same := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) && !wrong[what] {
			wrong[what] = true
			t.Errorf("%s: dispatch.go says %v, the table %v: a case is missing", what, got, want)
		}
	}
	for range 200 {
		now += random.Int64N(r.Window.Microseconds()/5 + 1e6)
		b.Open(r, now, 0)
		if r.Algorithm == store.Ledger && random.IntN(4) > 0 {
			b.Y = max(b.Y, 1<<changeBits|1) // a known account
		}
		cost := random.Int64N(4) + 1

		if earlier := now - 365*24*time.Hour.Microseconds(); b.Expires > now { // by a clock that was a year ahead
			other := *copied()
			other.Log = slices.Clone(other.Log)
			got := copied().bringBack(r, earlier)
			same("bringBack", []any{got, direct}, []any{c.bringBack(r, &other, earlier), other})
		}

		copied().roll(r, now, 0)
		c.roll(r, &b, now, 0)
		same("roll", direct, b)

		var reading Reading
		var m [4]int64
		copied().Read(r, now, cost, &reading)
		c.read(r, &b, now, cost, &m)
		n := reading.Numbers
		same("read", n, m)
		same("remaining", remaining(r, &n), c.remaining(r, &n))
		same("remaining, of Answer", (&Reading{Numbers: n}).Result(r, cost).Remaining, max(c.remaining(r, &n), 0))
		same("emptyAfter", emptyAfter(r, &n), c.emptyAfter(r, &n))
		for _, one := range []bool{false, true} {
			same(fmt.Sprint("wait ", one), waitFor(r, cost, &n, one), c.wait(r, cost, &n, one))
		}
		units, rest, unit := b.Form.used(&b, now)
		wantUnits, wantRest, wantUnit := c.used(b.Form, &b, now)
		same("used", [3]int64{units, rest, unit}, [3]int64{wantUnits, wantRest, wantUnit})

		if waitFor(r, cost, &n, false) == 0 {
			copied().charge(r, now, cost)
			c.charge(r, &b, now, cost)
			same("charge", direct, b)
			if b.Expires == 0 {
				t.Fatal("charge: an algorithm that charges nothing")
			}
		} else {
			copied().refund(r, now, cost, now)
			c.refund(r, &b, now, cost, now)
			same("refund", direct, b)
		}
	}
}
