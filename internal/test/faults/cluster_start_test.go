package faults_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// No node of the Cluster answers when the limiter is made, nor during its first
// requests. The outage action decides these in time, and no goroutines pile up.
func TestClusterIsAwayAtTheStart(t *testing.T) {
	if child.Apart(t) {
		return
	}
	cluster := redistest.StartClusterOf(t, 3, 0)
	for _, fault := range []struct {
		name  string
		begin func(*testing.T, *redistest.Server)
		end   func(*testing.T, *redistest.Server)
	}{
		{
			"frozen",
			func(t *testing.T, s *redistest.Server) { s.Freeze(t) },
			func(t *testing.T, s *redistest.Server) { s.Thaw(t) },
		},
		{
			"down",
			func(_ *testing.T, s *redistest.Server) { s.Kill() },
			func(t *testing.T, s *redistest.Server) { s.Restart(t) },
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			const deadline, workers, keys = 100 * time.Millisecond, 16, 8
			for _, node := range cluster.Nodes() {
				fault.begin(t, node)
			}
			tested := redisstore.New(cluster.Client(t), redisstore.Config{DenialCache: noDenials()})
			events := listen(tested)
			l := newLimiter(t, core.Config{Store: tested, Timeout: deadline, Limits: []core.Limit{atMost(1_000_000, "start").OnOutage(core.Deny)}})
			goroutines := runtime.NumGoroutine()
			load := newTraffic()
			for i := range keys {
				load.send(l, fmt.Sprint("user:", i), workers/keys, time.Millisecond)
			}
			began, most := time.Now(), 0
			eventually(t, "load", func() bool {
				most = max(most, runtime.NumGoroutine()-goroutines)
				return time.Since(began) > long.Rounds(300*time.Millisecond, 2*time.Second)
			})
			if redis := load.count("", began, (*ask).byRedis); redis > 0 {
				t.Errorf("%d decisions of no Redis", redis)
			}
			// Workers, four round trips and a probe for each of three nodes, attempts to
			// load the map, and what go-redis needs for its connections.
			if bound := workers + 100; most > bound {
				t.Errorf("%d goroutines more than before, want at most %d", most, bound)
			}
			for _, node := range cluster.Nodes() {
				fault.end(t, node)
			}
			back := time.Now()
			took := eventually(t, "decisions of Redis for all keys", func() bool {
				for i := range keys {
					if load.count(fmt.Sprint("user:", i), back, (*ask).byRedis) == 0 {
						return false
					}
				}
				return true
			})
			eventually(t, "the outage to be over", func() bool { return events.count(store.EventOutageEnded) > 0 })
			asks := load.stop()
			for i := range asks {
				if a := &asks[i]; !a.byRedis() && a.reason != core.ReasonOutageDenied {
					t.Errorf("decided %v", a.reason)
				}
			}
			wantOnTime(t, asks, deadline)
			figure(t, "goroutines more than before, 16 of them workers", most)
			figure(t, "all keys decided by Redis after its return within", took)
		})
	}
}
