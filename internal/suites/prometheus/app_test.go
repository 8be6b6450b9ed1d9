package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/quota"
	"github.com/weblimit/weblimit/regions"
)

const (
	trace = "4bf92f3577b34da6a3ce929d0e0e4736"

	// secret is the API key that some clients send.
	secret = "sk-live-3f1c9a77aa02"
)

// serve starts an application whose limits use everything that has a metric.
func serve(t *testing.T, server *redistest.Server) *httptest.Server {
	t.Helper()
	client := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	registry := prometheus.NewRegistry()
	metrics := must.Get(weblimitprom.New(weblimitprom.Config{
		Registerer: registry,
		TraceID:    func(context.Context) string { return trace },
		TopDenied:  func() float64 { return 20 },
	}))(t)
	book := book(t, redisstore.New(client))
	settings := nethttp.With(core.Config{
		Store: book.Store(), Observe: metrics, Version: "v1#0123456789ab",
		Timeout: 30 * time.Second, // a Redis that has no processor for a while is no outage here
		Bypass:  []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
	})
	byKey := keyfuncs.APIKey("X-API-Key")
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	app := http.NewServeMux()
	app.Handle("GET /orders/{id}", settings.Limit(
		core.PerSecond(5).By(byKey).Named("key"), core.PerMinute(5).By(byKey).Named("trial").Shadow())(ok))
	app.Handle("GET /paced", settings.Limit(core.PerSecond(20).By(byKey).LeakyBucket(time.Second).Named("paced"))(ok))
	app.Handle("GET /chat", settings.Limit(core.PerHour(1_000_000).By(byKey).Named("tokens").Estimate(1))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _ = core.Spend(r.Context(), 40) })))
	app.Handle("GET /paid", settings.Limit(core.PerMonth(100, time.UTC).By(byKey).Named("plan"))(ok))
	everywhere := must.Get(regions.New(core.NewMemory(), core.NewMemory(), regions.Config{Region: "eu", Regions: 3}))(t)
	app.Handle("GET /everywhere", nethttp.With(core.Config{Store: everywhere, Observe: metrics}).Limit(core.PerMinute(600).By(byKey).Named("everywhere"))(ok))
	app.Handle("GET /shared", settings.Limit(core.PerSecond(10).By(keyfuncs.Everyone()).Named("shared").Fair(core.Shares{By: byKey}))(ok))
	app.Handle("GET /healthz", settings.Limit(core.PerHour(1).By(byKey).Named("health"))(ok))
	app.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: registry}))
	s := httptest.NewServer(app)
	t.Cleanup(s.Close)
	return s
}

// book keeps a month's quota, with receivers that fail now and then.
func book(t *testing.T, s core.Store) *quota.Book {
	t.Helper()
	var calls atomic.Int64
	sometimes := func() error {
		if calls.Add(1)%2 == 1 {
			return errors.New("the receiver is busy")
		}
		return nil
	}
	b := quota.InMemory(quota.Config{
		Store:   s,
		Notices: []quota.Channel{{Name: "mail", Backoff: 100 * time.Millisecond, Deliver: func(context.Context, quota.Notice) error { return sometimes() }}},
		Exports: []quota.Export{{Name: "meter", Every: 100 * time.Millisecond, Send: func(context.Context, []quota.Increment) error { return sometimes() }}},
	})
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

// load sends requests of a few clients to the application until the test ends, of which one asks for
// more than its limit.
func load(t *testing.T, app *httptest.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	client := &http.Client{Timeout: time.Minute}
	send := func(key, path string, every time.Duration) {
		wg.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, app.URL+path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("X-API-Key", key)
				if response, err := client.Do(r); err == nil {
					_ = response.Body.Close()
				}
			}
		})
	}
	for i := range 3 {
		send(fmt.Sprint("good-client-", i), "/orders/1", 250*time.Millisecond)
	}
	send(secret, "/orders/2", 20*time.Millisecond)
	for range 3 {
		send(secret, "/paced", 40*time.Millisecond)
	}
	send(secret, "/chat", 50*time.Millisecond)
	send(secret, "/healthz", 200*time.Millisecond)
	send(secret, "/paid", 20*time.Millisecond)
	send(secret, "/everywhere", 20*time.Millisecond)
	send(secret, "/shared", 20*time.Millisecond)
	send("good-client-1", "/shared", 250*time.Millisecond)
}
