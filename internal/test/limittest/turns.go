package limittest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// turns are scenarios of requests that wait for their turn or hold a slot.
var turns = []scenario{
	{"a request that comes too early waits for its turn", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(core.PerSecond(10).LeakyBucket(time.Minute).By(keyfuncs.Everyone()).Named("even")),
			Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
				d, _ := c.Decision()
				c.Reply(200, d.Reason.String())
				if (d.Reason == core.ReasonDelayed) != (d.Delay() > 0) {
					e.Errorf("%v, after %v", d.Reason, d.Delay())
				}
			}}},
		})
		start := time.Now()
		var mu sync.Mutex
		bodies := map[string]int{}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				r := s.get("/")
				mu.Lock()
				defer mu.Unlock()
				bodies[r.body]++
				equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"even";q=10;w=1`)
			})
		}
		wg.Wait()
		if took := time.Since(start); took < 400*time.Millisecond {
			e.Errorf("five requests took %v at 10 a second, want 400ms at least", took)
		}
		if bodies["within limit"]+bodies["delayed"] != 5 || bodies["delayed"] == 0 {
			e.Errorf("decisions: %v", bodies)
		}
	}},
	{"a client that hangs up while it waits frees its place", func(e *env) {
		const waiting = 4
		pace, limit := time.Minute, core.PerHour(60) // too slow to end within the test
		if e.differs.Blind {
			pace, limit = 100*time.Millisecond, core.PerSecond(10)
		}
		store := e.counting()
		limiter := e.limiterOn(store, limit.LeakyBucket(time.Hour).By(keyfuncs.Everyone()).Named("even"))
		reached := make(chan struct{}, waiting+1)
		s := e.serve(App{Layers: []Layer{{Limiter: limiter}}, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
			reached <- struct{}{}
			hello(c)
		}}}})
		base, client := s.server.Listen(e), e.client()
		queue := func() time.Duration {
			d, err := limiter.Peek(e.Context(), "all", 0)
			if err != nil {
				e.Fatal(err)
			}
			return d.Results()[0].ResetAfter
		}
		e.passes("the first", e.fetch(client, "GET", base+"/"))
		<-reached
		ctx, hangUp := context.WithCancel(e.Context())
		var wg sync.WaitGroup
		for range waiting {
			wg.Go(func() {
				r, err := http.NewRequestWithContext(ctx, "GET", base+"/", http.NoBody)
				if err != nil {
					e.Error(err)
					return
				}
				if res, err := client.Do(r); err == nil { // the pace is fast
					_ = res.Body.Close()
				}
			})
		}
		e.eventually("all wait", func() bool { return store.calls.Load() == 1+waiting }, func() any { return store.calls.Load() })
		hangUp()
		wg.Wait()
		if e.differs.Blind { // it waits to the end, although its client has left
			for range waiting {
				select {
				case <-reached:
				case <-time.After(patience):
					e.Fatal("a request that waited has not reached its handler")
				}
			}
			return
		}
		e.eventually("the queue is short again", func() bool { return queue() <= pace }, func() any { return queue() })
	}},
	{"a request without a slot is denied, and its slot is free when a request has ended", func(e *env) {
		limiter := e.limiter(core.Concurrent(1).By(keyfuncs.Everyone()).Named("running"))
		entered, goOn := make(chan struct{}), make(chan struct{})
		s := e.serve(App{
			Layers: []Layer{{Limiter: limiter}},
			Routes: []Route{
				{Method: "GET", Path: "/", Handle: hello},
				{Method: "GET", Path: "/slow", Handle: func(c Call) {
					close(entered)
					<-goOn
					hello(c)
				}},
			},
		})
		var wg sync.WaitGroup
		wg.Go(func() { e.passes("the slow one", s.get("/slow")) })
		<-entered
		r := s.get("/")
		e.denied("meanwhile", r)
		equal(e, "RateLimit-Policy", e.only(r, "Ratelimit-Policy"), `"running";q=1;qu="concurrent-requests"`)
		equal(e, "RateLimit", e.only(r, "Ratelimit"), `"running";r=0;t=1`)
		equal(e, "Retry-After", e.only(r, "Retry-After"), "1")
		close(goOn)
		wg.Wait()
		e.eventually("the slot is free", func() bool {
			return s.get("/").status == http.StatusOK
		}, func() any { return "taken" })
	}},
	{"who exceeds a limit again and again is blocked, and can be let in again", func(e *env) {
		limiter := e.limiter(core.PerDay(1).FixedWindow().By(keyfuncs.ClientIP()).Named("api").
			Penalty(core.Block{After: 2, Within: time.Hour, For: 48 * time.Hour}))
		s := e.serve(App{Layers: []Layer{{Limiter: limiter}}})
		e.passes("the first", s.get("/"))
		contains(e, "the first denial", s.get("/").body, "#quota-exceeded")
		for range 2 {
			r := s.get("/")
			e.denied("blocked", r)
			e.wait(r, 48*3600)
			contains(e, "body", r.body, `"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Abnormal Usage Detected","status":429`)
			contains(e, "body", r.body, `"violated-policies":["api"]`)
		}
		if err := limiter.Unblock(e.Context(), "ip:192.0.2.1"); err != nil {
			e.Fatal(err)
		}
		contains(e, "after the block", s.get("/").body, "#quota-exceeded")
	}},
	{"requests that share a bucket because they lack the key are denied and never blocked", func(e *env) {
		limiter := e.limiter(core.PerDay(1).FixedWindow().By(keyfuncs.Header("X-Tenant")).Named("api").
			Penalty(core.Block{After: 2, Within: time.Hour, For: 48 * time.Hour}))
		s := e.serve(App{Layers: []Layer{{Limiter: limiter}}})
		e.passes("the first", s.get("/"))
		for range 6 {
			r := s.get("/")
			e.denied("one of those without a tenant", r)
			contains(e, "its body", r.body, "#quota-exceeded")
		}
		e.passes("the first of a tenant", s.get("/", with("X-Tenant", "t")))
		for range 3 {
			s.get("/", with("X-Tenant", "t"))
		}
		contains(e, "a tenant's body", s.get("/", with("X-Tenant", "t")).body, "#abnormal-usage-detected")
	}},
}
