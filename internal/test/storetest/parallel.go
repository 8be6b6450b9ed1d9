package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/long"
)

func parallel(r *rig) {
	for _, cost := range []int64{1, 3} {
		r.each(100, 30*24*time.Hour, func(r *rig, rule *core.Rule) {
			admitted := Hammer(r, r.Store, rule, fmt.Sprint("parallel", cost), cost, 64, long.Rounds(4, 20))
			if want := 100 / cost; admitted != want {
				r.Errorf("%d requests of cost %d passed a limit of 100, want %d", admitted, cost, want)
			}
		})
	}
}

// Hammer takes cost from many goroutines at once, each rounds times, and returns how
// many calls were allowed.
func Hammer(t testing.TB, store core.Store, rule *core.Rule, key string, cost int64, goroutines, rounds int) int64 {
	t.Helper()
	var admitted atomic.Int64
	atOnce(t, store, core.Check{Key: []byte(key), Rule: rule, Cost: cost}, goroutines, rounds, func(got answer) {
		if got.Allowed {
			admitted.Add(1)
		}
	})
	return admitted.Load()
}

// atOnce takes check from many goroutines at once, each rounds times. see is called
// concurrently with each result.
func atOnce(t testing.TB, store core.Store, check core.Check, goroutines, rounds int, see func(answer)) {
	t.Helper()
	var all sync.WaitGroup
	var failed sync.Once
	for range goroutines {
		all.Go(func() {
			results := make([]core.Result, 1)
			for range rounds {
				checks := fresh([]core.Check{check})
				if err := store.Take(context.Background(), checks, results); err != nil {
					failed.Do(func() { t.Errorf("take: %v", err) }) // the others' are the same
					return
				}
				see(answersOf(checks, results)[0])
			}
		})
	}
	all.Wait()
}

func parallelSeveral(r *rig) {
	const all, own, users, callers = 100, 14, 16, 64
	rounds := long.Rounds(6, 60) // more than own, of the callers of each user
	global := rule(r, core.Per(all, 30*24*time.Hour).Named("global"))
	each := rule(r, core.Per(own, 30*24*time.Hour).FixedWindow().Named("each"))
	var charged [users]atomic.Int64
	var asking sync.WaitGroup
	for g := range callers {
		asking.Go(func() {
			key := []byte(fmt.Sprint("user:", g%users))
			for range rounds {
				checks := []core.Check{{Key: []byte("all"), Rule: global, Cost: 1}, {Key: key, Rule: each, Cost: 1}}
				if g%2 == 1 {
					slices.Reverse(checks) // the order of locks must not depend on that of checks
				}
				results := make([]core.Result, 2)
				if err := r.Take(context.Background(), checks, results); err != nil {
					r.Errorf("take: %v", err)
					return
				}
				if results[0].Charged != results[1].Charged {
					r.Errorf("half a request was charged: %s %s", show(results[0]), show(results[1]))
				}
				if results[0].Charged {
					charged[g%users].Add(1)
				}
			}
		})
	}
	asking.Wait()
	total := int64(0)
	for i := range charged {
		n := charged[i].Load()
		total += n
		r.wantPeek(each, fmt.Sprint("user:", i), own-n)
	}
	if total != all {
		r.Errorf("%d requests passed a global limit of %d", total, all)
	}
}
