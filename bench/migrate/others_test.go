package migrate

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// What is not in Go has no pair: of it, the page has weblimit's side alone.

func fromExpress(mux http.Handler) http.Handler {
	limits := nethttp.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimit})
	perClient := core.Per(100, 15*time.Minute).FixedWindow().By(keyfuncs.ClientIP(keyfuncs.IPv6Prefix(56)))
	handler := limits.Limit(perClient)(mux)
	return handler
}

func fromNginx() core.Limit {
	atOnce := core.PerSecond(10).Burst(21).By(keyfuncs.ClientIP()).Named("address")
	return atOnce
}

func fromNginxQueue() core.Limit {
	delayed := core.PerSecond(10).LeakyBucket(2 * time.Second).By(keyfuncs.ClientIP()).Named("address")
	return delayed
}

func fromEnvoy() (_, _ core.Limit) {
	local := core.PerMinute(100).By(keyfuncs.Everyone()).Named("process")
	global := core.PerMinute(100).FixedWindow().By(keyfuncs.User("customer")).Named("customer")
	return local, global
}

// The body of a denial, as before.
func sameBody(store core.Store, r *gin.Engine, limit core.Limit) {
	limits := ginlimit.With(core.Config{Store: store, Headers: core.XRateLimit}, ginlimit.Config{
		Denied: func(c *gin.Context, d core.Decision) { c.String(d.Status(), "Limit exceeded") },
	})
	r.Use(limits.Limit(limit))
}

// Names of headers that weblimit does not have.
func hyphens(store core.Store, r *gin.Engine, limit core.Limit) {
	hyphens := func(c *gin.Context) {
		for _, name := range []string{"Limit", "Remaining", "Reset"} {
			c.Header("X-Rate-Limit-"+name, c.Writer.Header().Get("X-RateLimit-"+name))
		}
	}
	limits := ginlimit.With(core.Config{Store: store, Headers: core.XRateLimit}, ginlimit.Config{
		Denied: func(c *gin.Context, d core.Decision) { hyphens(c); ginlimit.Deny(c, d) },
	})
	r.Use(limits.Limit(limit), hyphens)
}

func timeRateWait(ctx context.Context, call func() error) error {
	limiter := rate.NewLimiter(2, 10)
	if err := limiter.Wait(ctx); err != nil {
		return err
	}
	return call()
}

func fromTimeRateWait(ctx context.Context, store core.Store, call func() error) error {
	limiter := core.Must(core.New(core.Config{
		Store:  store,
		Limits: []core.Limit{core.PerSecond(2).Burst(10).Wait(time.Minute).By(keyfuncs.Everyone()).Named("partner-api")},
	}))
	d := limiter.AllowKey(ctx, "partner", 1)
	if !d.Allowed {
		return fmt.Errorf("limited: %v", d.Reason)
	}
	return call()
}

// What the page says of Express, nginx and Envoy is what passes.
func TestOthers(t *testing.T) {
	t.Parallel()
	limited := func(limits ...core.Limit) server { return served(nethttp.Limit(core.NewMemory(), limits...)(page)) }
	for name, c := range map[string]struct {
		server   func() server
		requests []step
	}{
		"express-rate-limit": {func() server { return served(fromExpress(page)) }, []step{{0, 101, 100}, {15 * time.Minute, 101, 100}}},
		"nginx":              {func() server { return limited(fromNginx()) }, []step{{0, 23, 21}, {time.Second, 12, 10}}},
		"nginx, delayed":     {func() server { return limited(fromNginxQueue()) }, []step{{0, 21, 21}}},
		"Envoy":              {func() server { local, global := fromEnvoy(); return limited(local, global) }, []step{{0, 101, 100}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { (&pair{}).play(t, c.server(), c.requests) })
		})
	}
}

func TestBodiesAndNames(t *testing.T) {
	t.Parallel()
	limit := core.PerHour(1).By(keyfuncs.ClientIP())
	s := onGin(func(r *gin.Engine) { sameBody(core.NewMemory(), r, limit) })
	s(t, get, client, "")
	if r := s(t, get, client, ""); r.status != http.StatusTooManyRequests || r.body != "Limit exceeded" {
		t.Errorf("denied with %d %q", r.status, r.body)
	}
	s = onGin(func(r *gin.Engine) { hyphens(core.NewMemory(), r, limit) })
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
		r := s(t, get, client, "")
		if r.status != status || r.header.Get("X-Rate-Limit-Remaining") != "0" || r.header.Get("X-Rate-Limit-Limit") != "1" {
			t.Errorf("%d, want %d, with %v", r.status, status, r.header)
		}
	}
}

// Calls that wait for their turn begin at the same times.
func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(2, 10)
		ours := core.Must(core.New(core.Config{
			Store:  core.NewMemory(),
			Limits: []core.Limit{core.PerSecond(2).Burst(10).Wait(time.Minute).By(keyfuncs.Everyone())},
		}))
		for _, wait := range []func() bool{
			func() bool { return limiter.Wait(t.Context()) == nil },
			func() bool { d := ours.AllowKey(t.Context(), "partner", 1); return d.Allowed },
		} {
			start := time.Now()
			for n := range 14 {
				if !wait() {
					t.Fatalf("call %d is denied", n+1)
				}
			}
			if took := time.Since(start); took.Round(time.Millisecond) != 2*time.Second {
				t.Errorf("14 calls took %v, want 2s: ten at once, then two a second", took)
			}
		}
	})
	calls := 0
	call := func() error { calls++; return nil }
	if timeRateWait(t.Context(), call) != nil || fromTimeRateWait(t.Context(), core.NewMemory(), call) != nil || calls != 2 {
		t.Errorf("%d calls of two were made", calls)
	}
}
