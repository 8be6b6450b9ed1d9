package fiberlimit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/proxy"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/gofiber/fiber/v2/utils"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(preforkAddr); addr != "" {
		servePrefork(addr)
		return
	}
	os.Exit(limittest.Main(m))
}

func TestGuards(t *testing.T) {
	limittest.RunGuards(t, "fiber", build, limittest.Guards{
		Make: func(s *limittest.Settings, limits ...core.Limit) any {
			with := func() any { return fiberlimit.With(s.Config, config(s.Layer)) }
			return s.Made(with).(*fiberlimit.Settings).Guard(limits...)
		},
		Streams: limittest.Replaced,
	})
}

func TestClosures(t *testing.T) {
	limittest.RunClosures(t, build, limittest.Closures{
		Param: func(kind, name string) keyfuncs.Func {
			return fiberlimit.Key(kind, func(c *fiber.Ctx) string { return c.Params(name) })
		},
		Header: func(kind, name string) keyfuncs.Func {
			return fiberlimit.Key(kind, func(c *fiber.Ctx) string { return c.Get(name) })
		},
		NoHTTP: true,
		Has: func(name string) keyfuncs.Condition {
			return fiberlimit.Matches(func(c *fiber.Ctx) bool { return c.Get(name) != "" })
		},
	})
}

func TestSuite(t *testing.T) {
	limittest.Run(t, "fiber", build, differences)
}

func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build, differences) }

var differences = limittest.Differences{RoutesInFront: true, RefusesMethods: http.StatusBadRequest, OnlyHTTP1: true, Blind: true}

var templates = strings.NewReplacer("{", ":", "}", "")

func build(tb testing.TB, app limittest.App) limittest.Server {
	buffer := 16 << 10 // that of each connection
	if app.LargeHeaders {
		buffer = 2 << 20
	}
	f := fiber.New(fiber.Config{DisableStartupMessage: true, ReadBufferSize: buffer})
	f.Use(recover.New(), func(c *fiber.Ctx) error {
		for name, values := range app.Outer {
			for _, value := range values {
				c.Response().Header.Add(name, value)
			}
		}
		c.SetUserContext(limittest.ConnContext(c.Context().Conn()))
		user := utils.CopyString(c.Get(limittest.UserHeader))
		switch {
		case user == "":
		case app.SignIn == limittest.InContext:
			c.SetUserContext(context.WithValue(c.UserContext(), limittest.UserKey{}, user))
		case app.SignIn == limittest.InLocals:
			c.Locals(limittest.UserLocal, user)
		}
		ctx, cancel := limittest.WithDeadline(c.UserContext(), c.Get(limittest.DeadlineHeader))
		defer cancel()
		c.SetUserContext(ctx)
		return c.Next()
	})
	for _, limit := range limiters(slices.Concat(app.Front, app.Layers)) {
		f.Use(limit)
	}
	for _, route := range app.Routes {
		handlers := append(limiters(route.Layers), func(c *fiber.Ctx) (err error) {
			route.Handle(call{c, &err})
			return err
		})
		if path := templates.Replace(route.Path); route.Method == "" {
			f.All(path, handlers...)
		} else {
			f.Add(route.Method, path, handlers...)
		}
	}
	return server{tb, f, f.Server()}
}

func limiters(layers []limittest.Layer) []fiber.Handler {
	var chain []fiber.Handler
	for _, l := range layers {
		switch {
		case l.Load != nil:
			chain = append(chain, fiberlimit.Measure(l.Load))
		case l.With != nil:
			with := func() any { return fiberlimit.With(l.With.Config, config(l.With.Layer)) }
			settings := l.With.Made(with).(*fiberlimit.Settings)
			if l.Policies != nil {
				chain = append(chain, settings.Policy(l.Policies, "live"))
			} else {
				chain = append(chain, settings.Limit(l.Limits...))
			}
		case l.Store != nil:
			chain = append(chain, fiberlimit.Limit(l.Store, l.Limits...))
		case !l.NoContext && l.Skip == nil && l.Denied == nil && l.Log == nil:
			chain = append(chain, fiberlimit.New(l.Limiter))
		default:
			chain = append(chain, fiberlimit.New(l.Limiter, config(l)))
		}
	}
	return chain
}

func config(l limittest.Layer) fiberlimit.Config {
	var config fiberlimit.Config
	config.NoContext = l.NoContext
	if l.Skip != nil {
		config.Skip = func(c *fiber.Ctx) bool { return l.Skip(func(name string) string { return c.Get(name) }) }
	}
	if l.Log != nil {
		config.Denied = func(c *fiber.Ctx, d core.Decision) error {
			l.Log(d)
			return fiberlimit.Deny(c, d)
		}
	}
	if l.Denied != nil {
		config.Denied = func(c *fiber.Ctx, d core.Decision) error {
			status, body := l.Denied(d)
			switch {
			case status == 0 && body == "":
				return nil
			case status == 0:
				return c.SendString(body)
			}
			return c.Status(status).SendString(body)
		}
	}
	return config
}

// server serves an app without a network and on one.
type server struct {
	tb   testing.TB
	app  *fiber.App
	conn interface{ ServeConn(net.Conn) error }
}

func (s server) Do(r *http.Request) *http.Response {
	s.app.Handler() // prepares the app to serve
	res, err := limittest.Exchange(s.conn.ServeConn, r)
	if err != nil {
		s.tb.Fatal(err)
	}
	return res
}

func (s server) Listen(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	// Outcomes waits until every goroutine has ended. By default idle workers take 20 s.
	s.app.Server().MaxIdleWorkerDuration = 100 * time.Millisecond
	served := make(chan error)
	go func() { served <- s.app.Listener(l) }()
	tb.Cleanup(func() {
		if err := s.app.ShutdownWithTimeout(2 * time.Minute); err != nil {
			tb.Error(err)
		}
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

type call struct {
	c   *fiber.Ctx
	err *error
}

func (c call) Context() context.Context        { return c.c.UserContext() }
func (c call) Decision() (core.Decision, bool) { return fiberlimit.FromContext(c.c) }

func (c call) Header(name string) string              { return utils.CopyString(c.c.Get(name)) }
func (c call) Body() ([]byte, error)                  { return c.c.Body(), nil }
func (c call) Charge(n int64, limits ...string) error { return fiberlimit.Charge(c.c, n, limits...) }

func (c call) Ask(guard any, key string, cost int64) (ok bool) {
	ok, *c.err = guard.(*fiberlimit.Guard).Allow(c.c, key, cost)
	return ok
}

func (c call) Deface(name string) {
	for _, value := range c.c.Response().Header.PeekAll(name) {
		clear(value)
		clear(append(value, "appended"...))
	}
	c.c.Response().Header.Set(name, "defaced")
}

func (c call) Proxy(backend string) { *c.err = proxy.Do(c.c, backend+"/") }

func (c call) Fail(status int, own bool) {
	*c.err = errors.New("failed")
	if own {
		*c.err = fiber.NewError(status)
	}
}

func (c call) Hijack() {
	c.c.Context().HijackSetNoResponse(true)
	c.c.Context().Hijack(func(conn net.Conn) { _, _ = io.WriteString(conn, limittest.HijackedResponse) })
}

func (c call) Reply(status int, body string) { _ = c.c.Status(status).SendString(body) }

func (c call) Stream(next func() (string, bool)) {
	c.c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		for chunk, more := next(); more; chunk, more = next() {
			_, _ = w.WriteString(chunk)
			_ = w.Flush()
		}
	})
}
