package pgstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

const (
	processes  = 8
	goroutines = 8
	quota      = 200

	// longWindow is so long that nothing refills and no window ends while the test runs.
	longWindow = 40 * 365 * 24 * time.Hour

	orderEnv = "WEBLIMIT_PGSTORE_ORDER"
	mark     = "counts: "
)

// order is what a process of the tests below is told.
type order struct{ ConnString, Schema, Work string }

// inProcesses has processes do the work at once and returns the sum of their counts.
func inProcesses(t *testing.T, work string) map[string]int64 {
	t.Helper()
	server := pgtest.Shared(t)
	pool := newPool(t, server.ConnString(""))
	config := migrated(t, pool)
	told, err := json.Marshal(order{server.ConnString("") + " pool_max_conns=6", config.Schema, work})
	if err != nil {
		t.Fatal(err)
	}
	sum := map[string]int64{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			child := exec.Command(os.Args[0], "-test.run=^TestOneProcess$")
			child.Env = append(os.Environ(), orderEnv+"="+string(told))
			child.Stderr = os.Stderr
			out, err := child.Output()
			var counts map[string]int64
			if _, line, ok := bytes.Cut(out, []byte(mark)); err == nil && ok {
				err = json.NewDecoder(bytes.NewReader(line)).Decode(&counts)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil || counts == nil {
				t.Errorf("process: %v: %s", err, out)
			}
			for name, n := range counts {
				sum[name] += n
			}
		})
	}
	all.Wait()
	return sum
}

// TestOneProcess is not a test: it is one process of the tests below.
func TestOneProcess(t *testing.T) {
	told := os.Getenv(orderEnv)
	if told == "" {
		t.Skip("run by other tests")
	}
	var o order
	if err := json.Unmarshal([]byte(told), &o); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, o.ConnString)
	// Each process migrates, all at once.
	s, err := pgstore.Open(t.Context(), pool, pgstore.Config{Schema: o.Schema, Timeout: ample})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	switch o.Work {
	case "hammer":
		for name, limit := range storetest.Algorithms(quota, longWindow) {
			for _, cost := range []int64{1, 3} {
				key := fmt.Sprint(name, cost)
				counts[key] = storetest.Hammer(t, s, mustRule(t, limit), key, cost, goroutines, 8)
			}
		}
	case "repeat":
		repeat(t, s, counts)
	}
	line, err := json.Marshal(counts)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s%s\n", mark, line)
}

// Exactly the quota passes, whatever the algorithm and the cost, when many goroutines of many
// processes ask for one key at once.
func TestExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	admitted := inProcesses(t, "hammer")
	for name := range storetest.Algorithms(quota, longWindow) {
		for _, cost := range []int64{1, 3} {
			if got, want := admitted[fmt.Sprint(name, cost)], quota/cost; got != want {
				t.Errorf("%s, cost %d: %d processes got %d requests through a quota of %d, want %d", name, cost, processes, got, quota, want)
			}
		}
	}
}

// repeats of one operation by each process: 1,000 in all.
const repeats = 1000 / processes

// repeatRule lets an operation be repeated as often as the test does.
func repeatRule(t testing.TB) *core.Rule {
	t.Helper()
	r, err := store.NewRule("credits", store.Numbers{
		Algorithm: store.FixedWindow, Quota: 1_000_000, Window: longWindow, Once: 24 * time.Hour, Repeats: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &r
}

func repeat(t *testing.T, s core.Store, counts map[string]int64) {
	rule := repeatRule(t)
	var mu sync.Mutex
	var all sync.WaitGroup
	for g := range 5 {
		all.Go(func() {
			for range repeats / 5 {
				c := check("tenant", rule, 7)
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
	counts["left"] = take(t, s, check("tenant", rule, 0))[0].Remaining
}

// An operation that 8 processes repeat a thousand times is charged once.
func TestOneOperationIsChargedOnce(t *testing.T) {
	t.Parallel()
	counts := inProcesses(t, "repeat")
	if counts["charged"] != 1 || counts["repeated"] != 999 || counts["denied"] != 0 {
		t.Errorf("charged %d times, repeated %d, denied %d; want 1, 999 and 0", counts["charged"], counts["repeated"], counts["denied"])
	}
	if left := counts["left"]; left != processes*(1_000_000-7) {
		t.Errorf("left in the eyes of all processes: %d, want %d", left, processes*(1_000_000-7))
	}
}
