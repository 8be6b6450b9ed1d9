package redisstore_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

const (
	hammerProcesses  = 4
	hammerGoroutines = 64
	hammerQuota      = 500
	hammerRounds     = 4 // 4 × 64 × 4 requests for a quota of 500

	// hammerWindow is so long that nothing refills and no window ends while the test runs.
	hammerWindow = 40 * 365 * 24 * time.Hour
)

// hammerOrder holds the instructions for a process of the test below.
type hammerOrder struct{ Network, Addr, Prefix string }

// When many goroutines of many processes ask for one key at once, exactly the quota
// passes, whatever the algorithm and the cost.
func TestExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	order, err := json.Marshal(hammerOrder{server.Network(), server.Addr(), prefix})
	if err != nil {
		t.Fatal(err)
	}
	admitted := map[string]int64{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range hammerProcesses {
		all.Add(1)
		go func() {
			defer all.Done()
			child := exec.Command(os.Args[0], "-test.run=^TestHammerProcess$")
			child.Env = append(os.Environ(), "WEBLIMIT_HAMMER="+string(order))
			child.Stderr = os.Stderr
			out, err := child.Output()
			var counts map[string]int64
			if err == nil {
				err = json.NewDecoder(newLine(out)).Decode(&counts)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("process: %v: %s", err, out)
			}
			for name, n := range counts {
				admitted[name] += n
			}
		}()
	}
	all.Wait()
	for name := range storetest.Algorithms(hammerQuota, hammerWindow) {
		for _, cost := range []int64{1, 3} {
			if got, want := admitted[fmt.Sprint(name, cost)], hammerQuota/cost; got != want {
				t.Errorf("%s, cost %d: %d processes of %d goroutines got %d requests through a quota of %d, want %d",
					name, cost, hammerProcesses, hammerGoroutines, got, hammerQuota, want)
			}
		}
	}
}

// TestHammerProcess is not a test: it is one process of TestExactAcrossProcesses.
func TestHammerProcess(t *testing.T) {
	told := os.Getenv("WEBLIMIT_HAMMER")
	if told == "" {
		t.Skip("run by TestExactAcrossProcesses")
	}
	var order hammerOrder
	if err := json.Unmarshal([]byte(told), &order); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Network: order.Network, Addr: order.Addr, PoolSize: 16})
	defer func() { _ = client.Close() }()
	store := redisstore.New(client, redisstore.Config{Prefix: order.Prefix})
	awaitOthers(t, client, order.Prefix+"ready")
	admitted := map[string]int64{}
	for name, limit := range storetest.Algorithms(hammerQuota, hammerWindow) {
		for _, cost := range []int64{1, 3} {
			key := fmt.Sprint(name, cost)
			admitted[key] = storetest.Hammer(t, store, mustRule(t, limit), key, cost, hammerGoroutines, hammerRounds)
		}
	}
	line, err := json.Marshal(admitted)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s%s\n", hammerMark, line)
}

// awaitOthers returns when all processes have called it.
func awaitOthers(t *testing.T, client *redis.Client, key string) {
	t.Helper()
	n, err := client.Incr(t.Context(), key).Result()
	for deadline := time.Now().Add(5 * time.Minute); err == nil && n < hammerProcesses; {
		if time.Now().After(deadline) {
			t.Fatalf("only %d of %d processes came up", n, hammerProcesses)
		}
		time.Sleep(time.Millisecond)
		n, err = client.Get(t.Context(), key).Int64()
	}
	if err != nil {
		t.Fatal(err)
	}
}
