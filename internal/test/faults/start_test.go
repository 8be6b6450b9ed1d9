package faults_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Trap 27: an application starts without Redis, and uses it once Redis is up.
func TestRedisIsAbsentAtStart(t *testing.T) {
	t.Parallel()
	for policy, outcome := range outcomes {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartTCP(t)
			server.Kill() // the port is known, and nothing listens there
			a := newApp(t, server, server.Client(t), outcome)
			start := time.Now()
			for range 50 {
				outcome.wantOutage(t, "without Redis", a.ask("k"), store.ClassConnection, store.ClassOpen)
			}
			figure(t, "50 decisions without Redis took", time.Since(start))
			server.Restart(t)
			back := eventually(t, "a decision by Redis", func() bool { return a.ask("k").Reason == core.ReasonWithinLimit })
			figure(t, "decided by Redis after its start within", back)
			if a.heard.atLeast(1, core.EventOutageBegan) != 1 || a.heard.atLeast(1, core.EventBreakerClosed) != 1 {
				t.Errorf("events: %v", a.heard)
			}
		})
	}
}

// A Redis that comes back empty has forgotten what clients used, and the script. It
// learns what this process has granted meanwhile.
func TestRedisIsKilledAndRestartedEmpty(t *testing.T) {
	t.Parallel()
	const quota, before = 100, 60
	for policy, outcome := range outcomes {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartTCP(t)
			backend := redisstore.New(server.Client(t))
			heard := listen(backend)
			l := newLimiter(t, core.Config{Store: backend, Timeout: patience, Limits: []core.Limit{long(quota, "api").OnOutage(outcome.policy)}})
			passes := func(n int) (passed int64) {
				for range n {
					if l.AllowKey(t.Context(), "k", 1).Allowed {
						passed++
					}
				}
				return passed
			}
			if got := passes(before); got != before {
				t.Fatalf("%d of %d passed before", got, before)
			}
			server.Kill()
			during := passes(3 * quota)
			server.Restart(t)
			// Another client's requests start the probe that closes the breaker.
			back := eventually(t, "a decision by Redis", func() bool {
				return l.AllowKey(t.Context(), "other", 0).Reason == core.ReasonWithinLimit
			})
			after := passes(3 * quota)
			figure(t, "passed before, of 100", before)
			figure(t, "passed in the outage, of 300", during)
			figure(t, "decided by Redis after its start within", back)
			figure(t, "passed after it, of 300", after)
			want := map[string][2]int64{
				"Local": {quota, 1}, // the first request, which tells Redis about the others
				"Allow": {3 * quota, quota},
				"Deny":  {0, quota},
			}[policy]
			if during != want[0] || after != want[1] {
				t.Errorf("%d passed in the outage and %d after it, want %v; events: %v", during, after, want, heard)
			}
			for _, e := range heard.of(core.EventStoreError) {
				if e.Class != store.ClassConnection {
					t.Errorf("an error of class %q; events: %v", e.Class, heard)
				}
			}
		})
	}
}
