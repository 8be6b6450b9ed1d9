package pgstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/pgtest"
)

// Stores that share rows, as processes do, charge several keys together or not at all, and
// end up in no deadlock, whether the rows are there or new.
func TestCallsOfSeveralKeysAreWholeAcrossStores(t *testing.T) {
	t.Parallel()
	pool := newPool(t, pgtest.Shared(t).ConnString("")+" pool_max_conns=12")
	config := migrated(t, pool, pgstore.Config{Timeout: ample})
	const stores, callers, calls, keys, limit = 4, 4, 40, 6, 100
	rules := make([]*core.Rule, 2)
	for i := range rules {
		rules[i] = mustRule(t, core.Per(limit, longWindow).FixedWindow().Named(fmt.Sprint("plan", i)))
	}
	charged := map[string]int64{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range stores {
		s := pgstore.New(pool, config)
		for c := range callers {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(n), uint64(c)))
				for range calls {
					var checks []core.Check
					for _, k := range r.Perm(keys)[:1+r.IntN(3)] {
						checks = append(checks, checkOf(fmt.Sprint("key", k), rules[r.IntN(2)], 1+r.Int64N(3)))
					}
					results := make([]core.Result, len(checks))
					if err := s.Take(t.Context(), checks, results); err != nil {
						t.Errorf("take: %v", err)
						return
					}
					mu.Lock()
					for i, result := range results {
						check.Equal(t, fmt.Sprintf("charged as a whole: %+v", results), result.Charged, results[0].Charged)
						if result.Charged {
							charged[checks[i].Rule.Name+string(checks[i].Key)] += checks[i].Cost
						}
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	fresh := pgstore.New(pool, config)
	for _, rule := range rules {
		for k := range keys {
			key := fmt.Sprint("key", k)
			used := limit - take(t, fresh, checkOf(key, rule, 0))[0].Remaining
			check.Equal(t, fmt.Sprintf("%s of %s: used", key, rule.Name), used, charged[rule.Name+key])
		}
	}
}

// A caller that leaves may do what it wants with its keys.
func TestNothingOfTheCallerIsKept(t *testing.T) {
	t.Parallel()
	s := pgstore.New(shared(t))
	rule := mustRule(t, core.Per(1000, longWindow).FixedWindow().Named("plan"))
	key := []byte("mine")
	var charged int64
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*100*time.Microsecond)
		results := make([]core.Result, 1)
		if err := s.Take(ctx, []core.Check{{Key: key, Rule: rule, Cost: 1}}, results); err == nil && results[0].Charged {
			charged++
		}
		copy(key, "else") // while the call may still be under way
		copy(key, "mine")
		cancel()
	}
	if left := take(t, s, checkOf("mine", rule, 0))[0].Remaining; 1000-left < charged {
		t.Errorf("%d units used, %d calls were told that they are charged", 1000-left, charged)
	}
	check.Equal(t, "left of another key", take(t, s, checkOf("else", rule, 0))[0].Remaining, 1000)
}
