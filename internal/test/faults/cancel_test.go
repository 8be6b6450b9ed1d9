package faults_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/nethttp"
)

// Trap 29: clients that hang up while Redis is asked are charged. They affect no other
// client and leave nothing behind.
func TestClientsCancelMidCheck(t *testing.T) {
	if child.Apart(t) {
		return
	}
	const clients, quota = 64, 10_000_000
	requests := long.Rounds[int64](300, 10_000)
	server, prefix := redistest.Start(t), redistest.Prefix(t)
	proxy := redistest.StartProxy(t, server)
	store := redisstore.New(proxy.Client(t), redisstore.Config{Prefix: prefix})
	heard := listen(store)
	limits := []core.Limit{atMost(quota, "api").OnOutage(core.Deny)}
	l := newPatient(t, store, limits...)
	witness := newLimiter(t, core.Config{Store: redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}), Timeout: patience, Limits: limits})

	var reached, cancelled atomic.Int64
	limited := nethttp.New(l)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		limited.ServeHTTP(w, r)
		if r.Context().Err() != nil {
			cancelled.Add(1)
		}
	}))
	defer web.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	client := &http.Client{Transport: transport}
	get := func(ctx context.Context) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := client.Do(r)
		if err != nil {
			return // cancelled
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	proxy.Delay(3 * time.Millisecond)
	manyAsk(4*clients, func() { get(t.Context()) }) // opens all connections that stay open
	transport.CloseIdleConnections()
	time.Sleep(100 * time.Millisecond) // nothing tells when their goroutines have ended
	goroutines := runtime.NumGoroutine()
	start := time.Now()
	atOnce(clients, func(_ int) {
		for cancelled.Load() < requests && time.Since(start) < 4*patience {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Microsecond+rand.N(2*time.Millisecond))
			get(ctx)
			cancel()
		}
	})
	proxy.Delay(0)
	if cancelled.Load() < requests {
		t.Fatalf("only %d requests were cancelled mid-check", cancelled.Load())
	}

	web.Close() // waits for the handlers
	transport.CloseIdleConnections()
	charged := quota - remaining(t, witness, "all")
	figure(t, "requests that reached the limiter", reached.Load())
	figure(t, "of them cancelled meanwhile", cancelled.Load())
	figure(t, "charged", charged)
	if charged != reached.Load() {
		t.Errorf("charged %d requests of %d that reached the limiter", charged, reached.Load())
	}
	if d := l.AllowKey(t.Context(), "all", 1); d.Reason != core.ReasonWithinLimit {
		t.Errorf("the next decision: %v, %v", d.Reason, d.Err)
	}
	figure(t, "errors and other events", len(heard.all()))
	if events := heard.all(); len(events) > 0 {
		t.Errorf("clients that hang up are an error of Redis: %v", heard)
	}
	eventually(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	figure(t, "goroutines before", goroutines)
	figure(t, "goroutines after", runtime.NumGoroutine())
}
