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

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
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

// serve is the route's handler.
func (r *Route) serve(w http.ResponseWriter, req *http.Request) error {
	r.ran.Add(1)
	_, _ = io.Copy(io.Discard, req.Body)
	_, err := io.WriteString(w, "ok")
	return err
}

// serve serves routes on a listener. stop ends that and waits for it.
func serve(tb testing.TB, f frameworks.Framework, l net.Listener, routes []*Route) (stop func()) {
	tb.Helper()
	app := f.New()
	for _, r := range routes {
		app.Handle("", r.Path, r.serve, app.Limiter(r.Limiter))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = app.Serve(l) // until shutdown
	}()
	return func() {
		app.Shutdown()
		_ = l.Close()
		<-done
	}
}

// everyPair runs a test, in parallel, for each proxy in front of each framework.
func everyPair(t *testing.T, all []frameworks.Framework, test func(t *testing.T, p *proxy, f frameworks.Framework)) {
	t.Helper()
	for _, p := range proxies {
		for _, f := range all {
			t.Run(p.name+" "+f.Name, func(t *testing.T) {
				t.Parallel()
				test(t, p, f)
			})
		}
	}
}

// behind serves routes on a network of "tcp" or "unix" and starts the proxy in front.
// stop stops the proxy first, then the application.
func behind(t *testing.T, f frameworks.Framework, p *proxy, network string, routes []*Route, edits ...string) (front *started, stop func()) {
	t.Helper()
	l := listen(t, network)
	front = p.start(t, l.Addr(), edits...)
	stopApp := serve(t, f, l, routes)
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
