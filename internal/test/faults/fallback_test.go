package faults_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// pair is an application of two replicas with a first Redis and a second one.
type pair struct {
	first, second *redistest.Server
	replicas      []*core.Limiter
}

// newPair makes the replicas. limits are those of Config.Fallback, which has the second
// Redis if store is true.
func newPair(t *testing.T, timeout time.Duration, store bool, limits ...core.Limit) *pair {
	t.Helper()
	p := &pair{first: redistest.StartTCP(t), second: redistest.StartTCP(t)}
	for range 2 {
		fallback := core.Fallback{Limits: limits}
		if store {
			second := redisstore.New(p.second.Client(t))
			_ = listen(second) // keep the log quiet
			fallback.Store = second
		}
		first := redisstore.New(p.first.Client(t), redisstore.Config{DenialCache: noDenials()}) // or denials last in the outage
		_ = listen(first)
		p.replicas = append(p.replicas, newLimiter(t, core.Config{
			Store: first, Timeout: timeout, Replicas: 2, Fallback: fallback,
			Limits: []core.Limit{atMost(100, "api")},
		}))
	}
	return p
}

// ask asks each replica often for a client, and returns how many requests passed. Every
// decision must have the reason.
func (p *pair) ask(t *testing.T, key string, reasons ...core.Reason) (passed int) {
	t.Helper()
	for n := range 300 {
		d := p.replicas[n%2].AllowKey(context.Background(), key, 1)
		if !slices.Contains(reasons, d.Reason) {
			t.Fatalf("decision %d: %v, %v; want one of %v", n+1, d.Reason, d.Err, reasons)
		}
		if d.Allowed {
			passed++
		}
	}
	return passed
}

func (p *pair) restart(t *testing.T) time.Duration {
	t.Helper()
	p.first.Restart(t)
	return eventually(t, "a decision by the first Redis", func() bool {
		for _, l := range p.replicas {
			if l.AllowKey(context.Background(), "other", 0).Reason != core.ReasonWithinLimit {
				return false
			}
		}
		return true
	})
}

// byRedis are the reasons of decisions without an outage.
var byRedis = []core.Reason{core.ReasonWithinLimit, core.ReasonLimitExceeded}

func TestFallback(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		store  bool
		limits []core.Limit
		passed int // of 300 requests to two replicas
	}{
		{"another Redis has the limits whole", true, nil, 100},
		{"stricter limits are of each process", false, []core.Limit{atMost(10, "strict")}, 20},
		{"stricter limits on another Redis are shared", true, []core.Limit{atMost(10, "strict")}, 10},
		{"by default a process has its share", false, nil, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, patience, c.store, c.limits...)
			check.Equal(t, "before: passed", p.ask(t, "k", byRedis...), 100)
			p.first.Kill()
			got := p.ask(t, "k", core.ReasonOutageLocal)
			figure(t, "passed in the outage, of a limit of 100", got)
			check.Equal(t, "in the outage: passed", got, c.passed)
			figure(t, "decided by the first Redis again after", p.restart(t))
			asked := p.second.Calls(t, "evalsha")
			p.ask(t, "another", byRedis...)
			if again := p.second.Calls(t, "evalsha"); again != asked {
				t.Errorf("the second Redis was asked %d times after the outage", again-asked)
			}
		})
	}
}

// When the second Redis does not answer either, the process decides, and a
// request waits for two deadlines at most, until both breakers are open.
func TestFallbackStoreIsDownToo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		limits []core.Limit
		passed int
	}{
		{"with the limits", nil, 100},
		{"with stricter limits", []core.Limit{atMost(10, "strict")}, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, store.DefaultTimeout, true, c.limits...)
			p.first.Freeze(t)
			p.second.Freeze(t)
			var took, running []time.Duration
			passed, waited := 0, 0
			for n := range 300 {
				start := time.Now()
				d := p.replicas[n%2].AllowKey(context.Background(), "k", 1)
				took = append(took, time.Since(start))
				running = append(running, took[n]-late.between(start, start.Add(took[n])))
				if running[n] > store.DefaultTimeout/2 {
					waited++
				}
				if d.Reason != core.ReasonOutageLocal {
					t.Errorf("decision %d: %v, %v", n+1, d.Reason, d.Err)
				}
				if d.Allowed {
					passed++
				}
			}
			figure(t, "passed, of a limit of 100", passed)
			figure(t, "requests that waited", waited)
			figure(t, "added latency, at most", quantile(took, 1))
			figure(t, "added latency, median", quantile(took, 0.5))
			check.Equal(t, "passed", passed, c.passed)
			// In each replica five requests wait for both, until the breakers are open.
			if waited > 100 {
				t.Errorf("%d of 300 requests waited", waited)
			}
			if got := quantile(running, 0.9); got > 2*store.DefaultTimeout+100*time.Millisecond {
				t.Errorf("p90 is %v, want at most two deadlines", got)
			}
		})
	}
}

// A limit that denies in an outage still does so, whatever the fallback of others.
func TestFallbackIsForLocalOnly(t *testing.T) {
	t.Parallel()
	server, second := redistest.StartTCP(t), redistest.Start(t)
	store := redisstore.New(server.Client(t))
	_ = listen(store)
	l := newLimiter(t, core.Config{
		Store: store, Timeout: patience, Fallback: core.Fallback{Store: redisstore.New(second.Client(t))},
		Limits: []core.Limit{atMost(100, "local"), atMost(100, "deny").OnOutage(core.Deny)},
	})
	server.Kill()
	for n := range 20 {
		if d := l.AllowKey(t.Context(), "k", 1); d.Reason != core.ReasonOutageDenied {
			t.Errorf("decision %d: %v, %v", n+1, d.Reason, d.Err)
		}
	}
	if n := second.Calls(t, "evalsha"); n > 0 {
		t.Errorf("the second Redis was asked %d times", n)
	}
}
