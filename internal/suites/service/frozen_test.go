package service_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/service"
)

// Redis freezes under calls: it accepts them, and does not answer. Every call is decided by the outage
// policies of its limits, within the timeout until the breaker is open and at once from then on. When
// Redis is back, it decides again, and knows what was granted meanwhile.
func TestARedisThatIsFrozen(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Start(t), redistest.Prefix(t)
	store := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
	store.OnEvent(func(core.Event) {})
	const timeout = 300 * time.Millisecond
	s := newService(t, func(c *service.Config) {
		c.Store, c.Replicas = store, 2
		c.Policies = load(t, fmt.Sprintf(`
defaults: {timeout: %v}
policies:
  share: {limits: {share: {limit: 40/day fixed, by: user}}}
  closed: {limits: {closed: {limit: 40/day fixed, by: user, on_outage: deny}}}
`, timeout))
	})
	check := func(policy string) (allowed, outage bool, took time.Duration) {
		began := time.Now()
		status, got := post(t, s, "/v1/check", fmt.Sprintf(`{"policy":%q,"key":"user:ann"}`, policy))
		if status != http.StatusOK {
			t.Errorf("%s: status %d: %v", policy, status, got)
			return false, false, 0
		}
		outage, _ = got["outage"].(bool)
		return got["allowed"].(bool), outage, time.Since(began)
	}
	// One unit is used before, by a process with time. On a busy machine Redis can take longer than this one
	// waits, which then is to ask until it has an answer.
	patient := newService(t, func(c *service.Config) {
		c.Store, c.Policies = redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}), load(t, fmt.Sprintf(`
defaults: {timeout: %v}
policies: {share: {limits: {share: {limit: 40/day fixed, by: user}}}}
`, patience))
	})
	if status, got := post(t, patient, "/v1/check", `{"policy":"share","key":"user:ann"}`); status != http.StatusOK || got["allowed"] != true || got["outage"] != nil {
		t.Fatalf("not decided by Redis: %d %v", status, got)
	}
	for deadline := time.Now().Add(patience); ; {
		_, got := post(t, s, "/v1/check", `{"policy":"share","key":"user:ann","cost":0}`)
		if got["outage"] == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not decided by Redis")
		}
	}

	server.Freeze(t)
	var mu sync.Mutex
	var took []time.Duration
	passed := map[string]int{}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 8 {
				for _, policy := range []string{"share", "closed"} {
					allowed, outage, d := check(policy)
					mu.Lock()
					took = append(took, d)
					if allowed {
						passed[policy]++
					}
					if !outage && allowed {
						t.Errorf("%s: allowed, and not by an outage action", policy)
					}
					mu.Unlock()
				}
			}
		})
	}
	callers.Wait()
	if passed["share"] != 20 || passed["closed"] != 0 {
		t.Errorf("%v of 64 passed, want half of 40 and none", passed)
	}
	slices.Sort(took)
	if median, longest := took[len(took)/2], took[len(took)-1]; median > timeout/2 || longest > timeout+20*time.Second { // which is much for a busy machine, and little without the timeout
		t.Errorf("answers took %v in the middle and %v at most, with a timeout of %v", median, longest, timeout)
	}
	status, got := post(t, s, "/v1/peek", `{"policy":"share","key":"user:ann"}`)
	if status != http.StatusServiceUnavailable {
		t.Errorf("a peek, which no outage action decides: %d %v", status, got)
	}

	server.Thaw(t)
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		// A check finds that Redis is back, and then Redis learns what was granted.
		_, got := post(t, s, "/v1/check", `{"policy":"share","key":"user:ann","cost":0}`)
		left := got["limits"].([]any)[0].(map[string]any)["remaining"].(float64)
		if got["outage"] == nil && left <= 19 {
			return // one was used before the outage, and 20 in it
		}
		if time.Now().After(deadline) {
			t.Fatalf("Redis is back, and %v remain of 40: %v", left, got)
		}
	}
}
