package prefetch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
)

var block = core.Block{After: 3, Within: time.Hour, For: time.Hour}

// heatCounted asks until the background has taken a slice.
func (r *rig) heatCounted(c core.Check) {
	r.Helper()
	for n := 0; r.Held(&c) == 0; n++ {
		if n == 1000 {
			r.Fatal("1,000 requests, and no slice")
		}
		r.heat(1, c)
		r.pass(time.Microsecond)
	}
}

// The store sees a request with a penalty as it is, and once: it counts the denials.
func TestTheStoreSeesARequestWithAPenaltyOnce(t *testing.T) {
	run(t, 0.1, func(r *rig) {
		global := checkOf("all", rule(t, core.PerHour(1_000_000).Named("global")), 1)
		login := rule(t, core.PerHour(3).Named("login").Penalty(block))
		for n := 0; r.Held(&global) == 0; n++ {
			if n == 1000 {
				t.Fatal("1,000 requests, and no slice of the global limit")
			}
			r.take(global, checkOf(fmt.Sprint("client", n), login, 1))
			r.pass(time.Microsecond)
		}
		for n := range 6 {
			results := r.take(global, checkOf("offender", login, 1))
			if want := n == 5; results[1].Blocked != want || results[1].Charged != (n < 3) || results[0].Charged != (n < 3) {
				t.Errorf("request %d: %+v, want three grants, and the block with the third denial", n, results)
			}
		}
		// Also by a request that finds little left of the slice of the other limit.
		for n := range 3000 {
			r.take(global, checkOf(fmt.Sprint("again", n), login, 1))
			once := rule(t, core.PerHour(3).Named("once").Penalty(core.Block{After: 2, Within: time.Hour, For: time.Hour}))
			if r.take(global, checkOf(fmt.Sprint("again", n), once, 4))[1].Blocked {
				t.Fatalf("request %d: one denial has counted twice", n)
			}
			if n%50 == 0 {
				r.pass(time.Microsecond)
			}
		}
	})
}

func TestABlockEndsSlicesAndReturnsThem(t *testing.T) {
	for name, end := range map[string]func(*rig, core.Check){
		"of the key":                  func(r *rig, c core.Check) { r.End(c.Key) },
		"of all keys":                 func(r *rig, _ core.Check) { r.EndAll() },
		"when the store says blocked": func(r *rig, c core.Check) {},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 0.1, func(r *rig) {
				c := checkOf("k", rule(t, core.PerHour(1_000_000).Penalty(block)), 1)
				other, plain := c, checkOf("k", rule(t, core.PerHour(1_000_000).Named("plain")), 1)
				other.Key = []byte("other")
				for _, c := range []core.Check{c, other, plain} {
					r.heatCounted(c)
				}
				must.OK(t, r.store.Block(t.Context(), []core.Check{c}, time.Hour))
				end(r, c)
				if name == "when the store says blocked" {
					large := c
					large.Cost = r.Held(&c) + 1
					if !r.take(large)[0].Blocked {
						t.Error("a request of more than the slice is not blocked")
					}
				}
				if !r.take(c)[0].Blocked {
					t.Error("a slice outlived the block")
				}
				if held := r.Held(&other); held > 0 != (name != "of all keys") {
					t.Errorf("%d units of another key", held)
				}
				// An operator may have blocked it under that limit. Messages that were missed are of no such block.
				if held := r.Held(&plain); held > 0 == (name == "of the key") {
					t.Errorf("%d units of the key under a limit without a penalty", held)
				}
				r.pass(time.Millisecond)
				if r.store.returned.Load() == 0 {
					t.Error("nothing was returned")
				}
			})
		})
	}
}

// A block that comes while a slice is on its way ends it, too.
func TestABlockEndsASliceThatIsUnderWay(t *testing.T) {
	run(t, 0.1, func(r *rig) {
		c := checkOf("k", rule(t, core.PerHour(1_000_000).Penalty(block)), 1)
		r.store.onLease = func() { r.End(c.Key) }
		r.heat(200, c)
		r.pass(time.Millisecond)
		if held := r.Held(&c); r.store.leases.Load() == 0 || held > 0 {
			t.Errorf("%d slices, and %d units are held", r.store.leases.Load(), held)
		}
		if r.store.returned.Load() == 0 {
			t.Error("nothing was returned")
		}
	})
}

// A key whose slices the store refuses, since denials count, is asked for again when it is hot again.
func TestARefusedKeyIsNotAskedForEachTime(t *testing.T) {
	run(t, 0.1, func(r *rig) {
		c := checkOf("k", rule(t, core.PerHour(1_000_000).Penalty(block)), 1)
		r.store.refuse.Store(true)
		for range 2000 {
			r.heat(1, c)
			r.pass(time.Microsecond)
		}
		if n := r.store.leases.Load(); n == 0 || n > 2000/64 {
			t.Errorf("2,000 requests asked %d times for a slice", n)
		}
	})
}

// A slice that would last until its fixed window ends is worth returning when a block ends it early.
func TestABlockReturnsTheLastSliceOfAWindow(t *testing.T) {
	run(t, 0.1, func(r *rig) {
		r.atTheHour()
		r.pass(time.Hour - maxAge/2)
		c := checkOf("k", rule(t, core.PerHour(1_000_000).FixedWindow().Penalty(block)), 1)
		r.heatCounted(c)
		r.End(c.Key)
		r.pass(time.Millisecond)
		if r.store.returned.Load() == 0 {
			t.Error("nothing was returned")
		}
	})
}
