package faults_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Trap 27: an application starts without Redis, and uses it once Redis is up.
func TestRedisIsAbsentAtStart(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	server.Kill() // the port is known, and nothing listens there
	apps := newApps(t, server, server.Client(t))
	start := time.Now()
	for _, a := range apps {
		for range 50 {
			a.wantOutage(t, "without Redis", a.ask(planted), store.ClassConnection, store.ClassOpen)
		}
	}
	figure(t, "50 decisions of each policy without Redis took", time.Since(start))
	server.Restart(t)
	for _, a := range apps {
		back := eventually(t, "a decision by Redis", func() bool { return a.ask(planted).Reason == core.ReasonWithinLimit })
		figure(t, a.name+": decided by Redis after its start within", back)
		if a.heard.atLeast(1, store.EventOutageBegan) != 1 || a.heard.atLeast(1, store.EventBreakerClosed) != 1 {
			t.Errorf("%s: events: %v", a.name, a.heard)
		}
	}
}

// A Redis that comes back empty has forgotten what clients used, and the script. It
// learns what this process has granted meanwhile.
func TestRedisIsKilledAndRestartedEmpty(t *testing.T) {
	t.Parallel()
	const quota, before = 100, 60 // requests
	server := redistest.StartTCP(t)
	apps := newApps(t, server, server.Client(t))
	passes := func(a *app, n int) (passed int64) {
		for range n {
			if a.AllowKey(t.Context(), "k", appQuota/quota).Allowed {
				passed++
			}
		}
		return passed
	}
	for _, a := range apps {
		if got := passes(a, before); got != before {
			t.Fatalf("%d of %d passed before", got, before)
		}
	}
	server.Kill()
	during := map[string]int64{}
	for _, a := range apps {
		during[a.name] = passes(a, 3*quota)
	}
	server.Restart(t)
	for _, a := range apps {
		// Another client's requests start the probe that closes the breaker.
		back := eventually(t, "a decision by Redis", func() bool { return a.AllowKey(t.Context(), "other", 0).Reason == core.ReasonWithinLimit })
		after := passes(a, 3*quota)
		figure(t, a.name+": passed before, of 100", before)
		figure(t, a.name+": passed in the outage, of 300", during[a.name])
		figure(t, a.name+": decided by Redis after its start within", back)
		figure(t, a.name+": passed after it, of 300", after)
		want := map[string][2]int64{
			"Local": {quota, 1}, // the first request, which tells Redis about the others
			"Allow": {3 * quota, quota},
			"Deny":  {0, quota},
		}[a.name]
		if during[a.name] != want[0] || after != want[1] {
			t.Errorf("%s: %d passed in the outage and %d after it, want %v; events: %v", a.name, during[a.name], after, want, a.heard)
		}
		for _, e := range a.heard.of(store.EventStoreError) {
			if e.Class != store.ClassConnection {
				t.Errorf("%s: an error of class %q; events: %v", a.name, e.Class, a.heard)
			}
		}
	}
}
