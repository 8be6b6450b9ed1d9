package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
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

// When many goroutines of many processes ask for one key at once, exactly the quota
// passes, whatever the algorithm and the cost.
func TestExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	admitted := map[string]int64{}
	for _, counts := range reportsOf[map[string]int64](t, hammering) {
		for name, n := range counts {
			admitted[name] += n
		}
	}
	for name := range storetest.Algorithms(hammerQuota, hammerWindow) {
		for _, cost := range []int64{1, 3} {
			if got, want := admitted[fmt.Sprint(name, cost)], hammerQuota/cost; got != want {
				t.Errorf("%s, cost %d: %d processes of %d goroutines got %d requests through a quota of %d, want %d",
					name, cost, hammerProcesses, hammerGoroutines, got, hammerQuota, want)
			}
		}
	}
}

// hammering is one process of TestExactAcrossProcesses. It reports what was admitted.
var hammering = role("hammer", func(t *testing.T, client *redis.Client, prefix string) map[string]int64 {
	store := redisstore.New(client, redisstore.Config{Prefix: prefix})
	awaitOthers(t, client, prefix+"ready")
	admitted := map[string]int64{}
	for name, limit := range storetest.Algorithms(hammerQuota, hammerWindow) {
		for _, cost := range []int64{1, 3} {
			key := fmt.Sprint(name, cost)
			admitted[key] = storetest.Hammer(t, store, mustRule(t, limit), key, cost, hammerGoroutines, hammerRounds)
		}
	}
	return admitted
})

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
