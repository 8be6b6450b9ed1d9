package pgstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

const (
	processes  = 4
	goroutines = 8
	quota      = 200

	// longWindow is so long that nothing refills and no window ends while the test runs.
	longWindow = 40 * 365 * 24 * time.Hour
)

// order is what a process of the tests below is told.
type order struct{ ConnString, Schema string }

// inProcesses has processes do their work at once and returns the sum of their counts.
func inProcesses(t *testing.T) map[string]int64 {
	t.Helper()
	_, config := shared(t)
	told := order{pgtest.Shared(t).ConnString("") + " pool_max_conns=6", config.Schema}
	var working []*child.Process
	for range processes {
		working = append(working, worker.Start(t, told))
	}
	sum := map[string]int64{}
	for _, p := range working {
		for name, n := range child.Receive[map[string]int64](t, p) {
			sum[name] += n
		}
		p.Wait(t)
	}
	return sum
}

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

// worker is one process of the tests below. It sends what it has counted.
var worker = child.NewRole("worker", func(t *testing.T, parent *child.Parent, o order) {
	// Each process migrates, all at once.
	s := must.Get(pgstore.Open(t.Context(), newPool(t, o.ConnString), pgstore.Config{Schema: o.Schema, Timeout: ample}))(t)
	counts := map[string]int64{}
	for name, limit := range storetest.Algorithms(quota, longWindow) {
		for _, cost := range []int64{1, 3} {
			key := fmt.Sprint(name, cost)
			counts[key] = storetest.Hammer(t, s, mustRule(t, limit), key, cost, goroutines, 8)
		}
	}
	repeat(t, s, counts)
	parent.Send(counts)
})

// Exactly the quota passes, whatever the algorithm and the cost, when many goroutines of many
// processes ask for one key at once, and an operation that they repeat a thousand times is charged once.
func TestExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	counts := inProcesses(t)
	for name := range storetest.Algorithms(quota, longWindow) {
		for _, cost := range []int64{1, 3} {
			what := fmt.Sprintf("%s, cost %d: requests of %d processes that got through a quota of %d", name, cost, processes, quota)
			check.Equal(t, what, counts[fmt.Sprint(name, cost)], quota/cost)
		}
	}
	check.Equal(t, "charged", counts["charged"], 1)
	check.Equal(t, "repeated", counts["repeated"], 999)
	check.Equal(t, "denied", counts["denied"], 0)
	check.Equal(t, "left in the eyes of all processes", counts["left"], processes*(1_000_000-7))
}

// repeats of one operation by each process: 1,000 in all.
const repeats = 1000 / processes

// creditRule lets an operation be repeated as often as tests do.
func creditRule(t testing.TB) *core.Rule {
	t.Helper()
	r := must.Get(store.NewRule("credits", store.Numbers{
		Algorithm: store.FixedWindow, Quota: 1_000_000, Window: longWindow, Once: 24 * time.Hour, Repeats: 1000,
	}))(t)
	return &r
}

func repeat(t *testing.T, s core.Store, counts map[string]int64) {
	rule := creditRule(t)
	var mu sync.Mutex
	var all sync.WaitGroup
	for g := range 5 {
		all.Go(func() {
			for range repeats / 5 {
				c := checkOf("tenant", rule, 7)
				c.Once = []byte("operation 1")
				results := make([]core.Result, 1)
				err := s.Take(t.Context(), []core.Check{c}, results)
				mu.Lock()
				switch {
				case err != nil:
					t.Errorf("goroutine %d: %v", g, err)
				case results[0].Charged:
					counts["charged"]++
				case results[0].Repeated:
					counts["repeated"]++
				default:
					counts["denied"]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	counts["left"] = take(t, s, checkOf("tenant", rule, 0))[0].Remaining
}
