package proxies

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Route is a path for all methods with its own limiter. Its handler counts its runs.
type Route struct {
	Path    string
	Limiter *core.Limiter
	ran     atomic.Int64
	used    sync.Map // the keys that have nothing left
}

// newRoute makes a route whose limit is by client address, found by the strategy.
func newRoute(tb testing.TB, path string, strategy keyfuncs.Strategy) *Route {
	tb.Helper()
	r := &Route{Path: path}
	limiter := must.Get(core.New(core.Config{
		Store:     core.NewMemory(),
		Limits:    []core.Limit{core.PerDay(quota).By(keyfuncs.ClientIP(strategy)).WarnAt(1)},
		OnWarning: func(_ context.Context, w core.Warning) { r.used.Store(w.Key, true) },
		Logger:    slog.New(slog.DiscardHandler),
	}))(tb)
	r.Limiter = limiter
	return r
}

// quota is the number of requests per client, route and day.
const quota = 5

// Ran counts a run of a handler that is not ServeHTTP.
func (r *Route) Ran() { r.ran.Add(1) }

func (r *Route) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.ran.Add(1)
	_, _ = io.Copy(io.Discard, req.Body)
	_, _ = io.WriteString(w, "ok")
}

// Framework is a framework with an adapter, on its default engine.
type Framework struct {
	Name  string
	Build func([]*Route) Engine
}

// Engine serves on a listener until it is shut down.
type Engine interface {
	Serve(net.Listener) error
	Shutdown()
}

type std struct{ *http.Server }

// Std serves a handler of net/http.
func Std(h http.Handler) Engine {
	return std{&http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
}

func (s std) Serve(l net.Listener) error { return s.Server.Serve(l) }
func (s std) Shutdown()                  { _ = s.Close() }

// serve serves routes on a listener. stop ends that and waits for it.
func (f Framework) serve(tb testing.TB, l net.Listener, routes []*Route) (stop func()) {
	tb.Helper()
	e := f.Build(routes)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Serve(l) // until shutdown
	}()
	return func() {
		e.Shutdown()
		_ = l.Close()
		<-done
	}
}

// everyPair runs a test, in parallel, for each proxy in front of each framework.
func everyPair(t *testing.T, frameworks []Framework, test func(t *testing.T, p *proxy, f Framework)) {
	t.Helper()
	for _, p := range proxies {
		for _, f := range frameworks {
			t.Run(p.name+" "+f.Name, func(t *testing.T) {
				t.Parallel()
				test(t, p, f)
			})
		}
	}
}

// behind serves routes on a network of "tcp" or "unix" and starts the proxy in front.
// stop stops the proxy first, then the application.
func (f Framework) behind(t *testing.T, p *proxy, network string, routes []*Route, edits ...string) (front *started, stop func()) {
	t.Helper()
	l := listen(t, network)
	front = p.start(t, l.Addr(), edits...)
	stopApp := f.serve(t, l, routes)
	return front, func() {
		front.stop()
		stopApp()
	}
}

// listen opens the listener of an application behind a proxy.
func listen(tb testing.TB, network string) net.Listener {
	tb.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(child.Dir(tb), "app")
	}
	l := must.Get(net.Listen(network, addr))(tb)
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// settle fails the test unless the attacker and the honest client, and no other key, have
// used up their quota.
func (r *Route) settle(tb testing.TB) {
	tb.Helper()
	check.Equal(tb, r.Path+": requests of two clients reached the handler", r.ran.Load(), 2*quota)
	if keys := r.usedUp(); !slices.Equal(keys, []string{"ip:" + attacker, "ip:" + honest}) {
		tb.Errorf("%s: nothing is left of %q, want the two clients", r.Path, keys)
	}
}

// usedUp returns the keys of the clients that have nothing left, sorted.
func (r *Route) usedUp() (keys []string) {
	r.used.Range(func(key, _ any) bool {
		keys = append(keys, key.(string))
		return true
	})
	slices.Sort(keys)
	return keys
}
