package limittest

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// lines are scenarios of clients that try to take more than their share of the queue.
var lines = []scenario{
	{"a client that fills the line leaves places for others", func(e *env) {
		const places = 8
		store := e.counting()
		limiter, err := core.New(core.Config{
			Store: store, Timeout: patience, MaxWaiting: places,
			Limits: []core.Limit{core.PerSecond(10).LeakyBucket(time.Minute).By(keyfuncs.Header("X-Tenant")).Named("even")},
		})
		if err != nil {
			e.Fatal(err)
		}
		s := e.serve(App{Layers: []Layer{{Limiter: limiter}}})
		var passed, denied atomic.Int64
		start := time.Now()
		var group sync.WaitGroup
		for range 4 * places {
			group.Go(func() {
				if s.get("/", with("X-Tenant", "greedy")).status == http.StatusOK {
					passed.Add(1)
				} else {
					denied.Add(1)
				}
			})
		}
		e.eventually("the line has no place left for that tenant", func() bool { return denied.Load() > 0 }, func() any { return denied.Load() })
		e.passes("one with nobody in front", s.get("/", with("X-Tenant", "other")))
		e.passes("one with only that in front", s.get("/", with("X-Tenant", "other")))
		group.Wait()
		// Plus what was granted while requests still came, which is ten a second.
		arriving := time.Unix(0, store.last.Load()).Sub(start)
		if n := passed.Load(); n < places/2 || n > places/2+4+int64(10*arriving.Seconds()) {
			e.Errorf("%d requests of the greedy tenant passed that came within %v, want its half of %d places and little more", n, arriving, places)
		}
	}},
	{"a client that resets its requests while they wait costs the store little", func(e *env) {
		const resets = 40
		if e.differs.Blind {
			return // here a request whose client has left waits to the end and costs one call
		}
		store := e.counting()
		limiter := e.limiterOn(store, core.PerHour(60).LeakyBucket(time.Hour).By(keyfuncs.Everyone()).Named("even"))
		s := e.serve(App{Layers: []Layer{{Limiter: limiter}}})
		base, client := s.server.Listen(e), e.client()
		e.passes("the first", e.fetch(client, "GET", base+"/"))
		start := time.Now()
		for range resets {
			ctx, reset := context.WithTimeout(e.Context(), 10*time.Millisecond)
			r, err := http.NewRequestWithContext(ctx, "GET", base+"/", http.NoBody)
			if err != nil {
				e.Fatal(err)
			}
			if res, err := client.Do(r); err == nil {
				e.Errorf("status %d for a request that was to wait a minute", res.StatusCode)
				_ = res.Body.Close()
			}
			reset()
			e.eventually("the server notices that it is gone", func() bool { return limiter.Stats().Waiting == 0 }, func() any { return limiter.Stats().Waiting })
		}
		// One charge and one refund per second, and a few more for requests that had not reached the
		// limiter when they were reset.
		if n, most := store.calls.Load(), int64(resets/4)+4*int64(time.Since(start)/time.Second+1); n > most {
			e.Errorf("%d resets cost the store %d calls, want %d at most", resets, n, most)
		} else {
			e.Logf("%d resets in %v cost the store %d calls", resets, time.Since(start).Round(time.Millisecond), n)
		}
	}},
}
