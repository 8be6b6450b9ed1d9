package page

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
	"github.com/weblimit/weblimit/nethttp"
)

const password = "a password for tests"

// instance is one of several processes of an application on one Redis.
type instance struct {
	store core.Store
	heavy *top.Tracker
	app   http.Handler
	url   string // of the page
	end   func() // stops the server
}

// evil is what a client sends as its name, and what the application's resolver makes of it.
const evil = `<img src=x onerror=alert(1)>`

// start starts an instance. Its page is mounted below a prefix that nobody cuts off.
func start(t *testing.T, server *redistest.Server, prefix, name string) *instance {
	t.Helper()
	store := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
	heavy := top.New(top.Config{Exchange: store.Exchange(), Instance: name, Interval: time.Second})
	t.Cleanup(heavy.Close)
	limits := nethttp.With(core.Config{Store: store, Observe: heavy, Timeout: patience})
	user := keyfuncs.Header("X-User")
	mux := http.NewServeMux()
	serve := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served\n") })
	mux.Handle("/", limits.Limit(
		core.PerMinute(60).By(user).Named("per-user").Penalty(core.Block{After: 100000, Within: time.Hour, For: time.Minute}),
		core.PerSecond(500).By(keyfuncs.Everyone()).Named("everyone"),
		core.PerMinute(30).SlidingWindow().By(user).Named("trial").Shadow(),
	)(serve))
	mux.Handle("/search", limits.Limit(core.PerSecond(5).Burst(20).By(keyfuncs.APIKey("X-API-Key")).Named("search"))(serve))
	mux.Handle("/login", limits.Limit(
		core.PerMinute(10).FixedWindow().By(keyfuncs.Header("X-Address")).Named("login").
			Penalty(core.Block{After: 20, Within: time.Minute, For: 10 * time.Minute}))(serve))
	mux.Handle("/export", limits.Limit(core.PerHour(100).By(user).Cost(10).Named("export"))(serve))
	page, err := inspect.New(inspect.Config{
		Store: store,
		Top:   heavy,
		// A Redis that has no processor for a while is no error here, which the browser would note.
		Timeout: time.Minute,
		Users:   []inspect.User{{Name: "olga", Password: password, May: inspect.Act}},
		Logger:  slog.New(slog.DiscardHandler),
		Label: func(key string) string {
			switch key {
			case keyfuncs.Encode("apikey", "acme"):
				return "Acme Ltd, plan M"
			case keyfuncs.Encode("header.x-user", "user-3"):
				return "Olivia's report job"
			case keyfuncs.Encode("header.x-user", evil):
				return evil
			}
			return ""
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/ops/limits/", page)
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	t.Cleanup(page.Close)
	end := func() { page.Close(); web.CloseClientConnections(); web.Close() }
	return &instance{store: store, heavy: heavy, app: mux, url: web.URL + "/ops/limits/", end: end}
}

// request sends a request to the application and returns its status.
func (in *instance) request(path string, headers ...string) int {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	in.app.ServeHTTP(w, r)
	return w.Code
}

// deny sends requests until so many are denied, however slow the machine is: meanwhile clients regain some.
func (in *instance) deny(t *testing.T, n int, path string, headers ...string) {
	t.Helper()
	for began := time.Now(); n > 0; {
		if in.request(path, headers...) == http.StatusTooManyRequests {
			n--
		} else if time.Since(began) > patience {
			t.Fatalf("%v later %d denials are missing", patience, n)
		}
	}
}

// load sends requests of good and bad clients until the returned function is called.
func load(instances ...*instance) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			in := instances[n%len(instances)]
			in.request("/", "X-User", fmt.Sprint("user-", n%40))
			in.request("/", "X-User", "crawler")
			for range 1 + n/40%3 {
				in.request("/search", "X-API-Key", "acme")
			}
			if n%2 == 0 {
				in.request("/search", "X-API-Key", fmt.Sprint("partner-", n%10))
			}
			if n%4 == 0 {
				in.request("/login", "X-Address", "198.51.100.7")
			}
			if n%60 == 0 {
				in.request("/export", "X-User", "user-3")
			}
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(end); <-ended }
}
