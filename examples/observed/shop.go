package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
	"github.com/weblimit/weblimit/metrics/top"
	"github.com/weblimit/weblimit/nethttp"
)

// The limits of the shop.
var (
	byKey   = keyfuncs.APIKey("X-API-Key")
	address = core.PerSecond(10).Burst(50).By(keyfuncs.ClientIP()).Named("address")

	customer = core.PerSecond(5).Burst(20).By(byKey).Named("customer").OnMissingKey(core.DenyRequest)

	// Only failed logins count. An address that goes on trying is blocked.
	login = core.Per(5, 5*time.Minute).SlidingLog().By(keyfuncs.ClientIP()).Named("login").RefundOn(core.Successes).
		Penalty(core.Block{After: 20, Within: 10 * time.Minute, For: 5 * time.Minute})

	// A limit on trial: counted, and never enforced. It is too low for some good clients, which
	// is what the page and the metrics say of it.
	trial = core.Per(5, 10*time.Second).SlidingWindow().By(byKey).Named("trial").OnMissingKey(core.SkipLimit).Shadow()
)

// instance is one process of the shop, as it would be on a machine of its own: with its own store,
// connections, limiters, observers, page and metrics.
type instance struct {
	name    string
	url     string // of the server
	handler http.Handler
	server  *http.Server

	limits     *nethttp.Settings
	heavy      *top.Tracker
	denials    *weblimitslog.Observer
	closeStore func() error
}

// newInstance makes an instance that counts in Redis, or in memory if shared is nil. The password is
// that of the page. With one logSecret, a client has the same hash in the logs of all instances.
func newInstance(name string, shared *redis.Options, password, logSecret string) (*instance, error) {
	store, exchange, closeStore := core.Store(core.NewMemory()), top.Exchange(nil), func() error { return nil }
	replicas := 1
	if shared != nil {
		options := *shared // NewClient fills it in
		client := redis.NewClient(&options)
		// A prefix of its own: the Redis may be one that others use.
		s := redisstore.New(client, redisstore.Config{Prefix: "weblimit-observed:"})
		store, exchange, closeStore = s, s.Exchange(), client.Close
		replicas = 2 // while Redis is away, each grants its half
	}
	heavy := top.New(top.Config{Exchange: exchange, Instance: name, Interval: time.Second})
	registry := prometheus.NewRegistry()
	metrics, err := weblimitprom.New(weblimitprom.Config{Registerer: registry, TopDenied: heavy.HighestDenials})
	if err != nil {
		return nil, err
	}
	logger := slog.With("instance", name)
	denials, err := weblimitslog.New(weblimitslog.Config{Logger: logger, Every: 10 * time.Second, Secret: []byte(logSecret)})
	if err != nil {
		return nil, err
	}
	page, err := inspect.New(inspect.Config{
		Store: store, Top: heavy, Label: labels(), Logger: logger,
		Users: []inspect.User{{Name: "ops", Password: password, May: inspect.Act}},
	})
	if err != nil {
		return nil, err
	}
	limits := nethttp.With(core.Config{
		Store: store, Replicas: replicas, Observe: core.Observers(heavy, metrics, denials),
	})

	mux := http.NewServeMux()
	mux.Handle("GET /catalog/{page}", limits.Limit(address)(answer("a page\n")))
	mux.Handle("GET /v1/items/{id}", limits.Limit(address, customer, trial)(answer("an item\n")))
	mux.Handle("GET /v1/search", limits.Limit(address, customer, trial)(answer("some items\n")))
	mux.Handle("POST /login", limits.Limit(address, login)(http.HandlerFunc(serveLogin)))
	mux.Handle("/ops/limits/", page)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))

	in := &instance{name: name, handler: mux, limits: limits, heavy: heavy, denials: denials, closeStore: closeStore}
	in.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	in.server.RegisterOnShutdown(page.Close)
	return in, nil
}

func answer(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

func serveLogin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4096)
	if r.FormValue("password") != "opensesame" {
		http.Error(w, "wrong password", http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, "welcome\n")
}

// serve listens at addr and serves in the background.
func (in *instance) serve(ctx context.Context, addr string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	in.url = "http://" + listener.Addr().String()
	go func() {
		if err := in.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("the server ended", "instance", in.name, "error", err)
		}
	}()
	return nil
}

// close ends the instance: first the requests, then what they have left behind.
func (in *instance) close(ctx context.Context) {
	err := errors.Join(in.server.Shutdown(ctx), in.limits.Drain(ctx))
	if err != nil {
		slog.Warn("not everything has ended in time", "instance", in.name, "error", err)
	}
	in.denials.Flush()
	in.heavy.Close()
	_ = in.closeStore() // nothing is left to be sent
}
