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

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// route is a path for all methods with its own limiter. Its handler counts its runs.
type route struct {
	path    string
	limiter *core.Limiter
	ran     atomic.Int64
	used    sync.Map // the keys that have nothing left
}

// newRoute makes a route whose limit is by client address, found by the strategy.
func newRoute(tb testing.TB, path string, strategy keyfuncs.Strategy) *route {
	tb.Helper()
	r := &route{path: path}
	limiter, err := core.New(core.Config{
		Store:     core.NewMemory(),
		Limits:    []core.Limit{core.PerDay(quota).By(keyfuncs.ClientIP(strategy)).WarnAt(1)},
		OnWarning: func(_ context.Context, w core.Warning) { r.used.Store(w.Key, true) },
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	r.limiter = limiter
	return r
}

// quota is the number of requests per client, route and day.
const quota = 5

func (r *route) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.ran.Add(1)
	_, _ = io.Copy(io.Discard, req.Body)
	_, _ = io.WriteString(w, "ok")
}

// framework is a framework with an adapter, on its default engine.
type framework struct {
	name  string
	build func([]*route) engine
}

// engine serves on a listener until it is shut down.
type engine interface {
	serve(net.Listener) error
	shutdown()
}

var frameworks = []framework{
	{"net http", func(routes []*route) engine {
		mux := http.NewServeMux()
		for _, r := range routes {
			mux.Handle(r.path, nethttp.New(r.limiter)(r))
		}
		return newStd(mux)
	}},
	{"chi", func(routes []*route) engine {
		mux := chi.NewRouter()
		for _, r := range routes {
			mux.With(chilimit.New(r.limiter)).Handle(r.path, r)
		}
		return newStd(mux)
	}},
	{"Gin", func(routes []*route) engine {
		e := gin.New()
		for _, r := range routes {
			e.Any(r.path, ginlimit.New(r.limiter), gin.WrapH(r))
		}
		return newStd(e)
	}},
	{"Echo", func(routes []*route) engine {
		e := echo.New()
		for _, r := range routes {
			e.Any(r.path, echo.WrapHandler(r), echolimit.New(r.limiter))
		}
		return newStd(e)
	}},
	{"Fiber", func(routes []*route) engine {
		app := fiber.New(fiber.Config{DisableStartupMessage: true})
		for _, r := range routes {
			app.All(r.path, fiberlimit.New(r.limiter), func(c *fiber.Ctx) error {
				r.ran.Add(1)
				return c.SendString("ok")
			})
		}
		return fast{app}
	}},
}

func init() { gin.SetMode(gin.ReleaseMode) }

type std struct{ *http.Server }

func newStd(h http.Handler) std {
	return std{&http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
}

func (s std) serve(l net.Listener) error { return s.Serve(l) }
func (s std) shutdown()                  { _ = s.Close() }

type fast struct{ *fiber.App }

func (f fast) serve(l net.Listener) error { return f.Listener(l) }
func (f fast) shutdown()                  { _ = f.ShutdownWithTimeout(time.Second) }

// serve serves routes on a listener. stop ends that and waits for it.
func (f framework) serve(tb testing.TB, l net.Listener, routes []*route) (stop func()) {
	tb.Helper()
	e := f.build(routes)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.serve(l) // until shutdown
	}()
	return func() {
		e.shutdown()
		_ = l.Close()
		<-done
	}
}

// everyPair runs a test, in parallel, for each proxy in front of each framework.
func everyPair(t *testing.T, test func(t *testing.T, p *proxy, f framework)) {
	t.Helper()
	for _, p := range proxies {
		for _, f := range frameworks {
			t.Run(p.name+" "+f.name, func(t *testing.T) {
				t.Parallel()
				test(t, p, f)
			})
		}
	}
}

// behind serves routes on a network of "tcp" or "unix" and starts the proxy in front.
// stop stops the proxy first, then the application.
func (f framework) behind(t *testing.T, p *proxy, network string, routes []*route, edits ...string) (front *started, stop func()) {
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
		addr = filepath.Join(shortDir(tb), "app")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// settle fails the test unless the attacker and the honest client, and no other key, have
// used up their quota.
func (r *route) settle(tb testing.TB) {
	tb.Helper()
	if n := r.ran.Load(); n != 2*quota {
		tb.Errorf("%s: %d requests of two clients reached the handler, want %d", r.path, n, 2*quota)
	}
	if keys := r.usedUp(); !slices.Equal(keys, []string{"ip:" + attacker, "ip:" + honest}) {
		tb.Errorf("%s: nothing is left of %q, want the two clients", r.path, keys)
	}
}

// usedUp returns the keys of the clients that have nothing left, sorted.
func (r *route) usedUp() (keys []string) {
	r.used.Range(func(key, _ any) bool {
		keys = append(keys, key.(string))
		return true
	})
	slices.Sort(keys)
	return keys
}
