package fibertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Guards are those of the adapter suite.
func Guards[C Ctx[C]](f Framework[C]) limittest.Guards {
	return limittest.Guards{Make: f.Guard, Streams: limittest.Replaced}
}

// Closures are those of the adapter suite.
func Closures[C Ctx[C]](f Framework[C]) limittest.Closures {
	return limittest.Closures{
		Param: func(kind, name string) keyfuncs.Func {
			return f.Key(kind, func(c C) string { return c.Params(name) })
		},
		Header: func(kind, name string) keyfuncs.Func {
			return f.Key(kind, func(c C) string { return c.Get(name) })
		},
		Has: func(name string) keyfuncs.Condition {
			return f.Matches(func(c C) bool { return c.Get(name) != "" })
		},
		NoHTTP: true,
	}
}

var templates = strings.NewReplacer("{", ":", "}", "")

// Build makes servers for the adapter suite.
func Build[C Ctx[C]](f Framework[C]) limittest.Build {
	return func(tb testing.TB, app limittest.App) limittest.Server {
		buffer := 16 << 10 // that of each connection
		if app.LargeHeaders {
			buffer = 2 << 20
		}
		a := f.App(Options[C]{ReadBufferSize: buffer})
		a.Use("", f.Recover(), func(c C) error {
			for name, values := range app.Outer {
				for _, value := range values {
					f.Response(c).Add(name, value)
				}
			}
			ctx := limittest.ConnContext(f.Conn(c))
			user := strings.Clone(c.Get(limittest.UserHeader))
			switch {
			case user == "":
			case app.SignIn == limittest.InContext:
				ctx = context.WithValue(ctx, limittest.UserKey{}, user)
			case app.SignIn == limittest.InLocals:
				c.Locals(limittest.UserLocal, user)
			}
			ctx, cancel := limittest.WithDeadline(ctx, c.Get(limittest.DeadlineHeader))
			defer cancel()
			f.SetContext(ctx, c)
			return c.Next()
		})
		for _, limit := range f.Middleware(slices.Concat(app.Front, app.Layers)...) {
			a.Use("", limit)
		}
		for _, route := range app.Routes {
			a.Add(route.Method, templates.Replace(route.Path), append(f.Middleware(route.Layers...), func(c C) (err error) {
				route.Handle(call[C]{f, c, &err})
				return err
			})...)
		}
		return server[C]{tb, a}
	}
}

// server serves an app without a network and on one.
type server[C any] struct {
	tb  testing.TB
	app App[C]
}

func (s server[C]) Do(r *http.Request) *http.Response {
	return must.Get(limittest.Exchange(s.app.ServeConn, r))(s.tb)
}

func (s server[C]) Listen(tb testing.TB) string {
	tb.Helper()
	return "http://" + listen(tb, s.app)
}

// listen serves an app on a port of the loopback interface until the test ends, and returns its address.
func listen[C any](tb testing.TB, app App[C]) (address string) {
	tb.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(tb)
	served := make(chan error)
	go func() { served <- app.Serve(l) }()
	tb.Cleanup(func() {
		check.OK(tb, app.Shutdown())
		check.OK(tb, <-served)
	})
	return l.Addr().String()
}

// call is a request of the adapter suite. err is what its handler returns.
type call[C Ctx[C]] struct {
	f   Framework[C]
	c   C
	err *error
}

func (c call[C]) Context() context.Context        { return c.f.Context(c.c) }
func (c call[C]) Decision() (core.Decision, bool) { return c.f.FromContext(c.c) }
func (c call[C]) Header(name string) string       { return strings.Clone(c.c.Get(name)) }
func (c call[C]) Body() ([]byte, error)           { return c.c.Body(), nil }
func (c call[C]) Spend(n int64, limits ...string) error {
	return core.Spend(c.f.Context(c.c), n, limits...)
}
func (c call[C]) Proxy(backend string)          { *c.err = c.f.Proxy(c.c, backend+"/") }
func (c call[C]) Reply(status int, body string) { _ = c.c.Status(status).SendString(body) }

func (c call[C]) Ask(guard any, key string, cost int64) (ok bool) {
	ok, *c.err = guard.(*Guard[C]).Allow(c.c, key, cost)
	return ok
}

func (c call[C]) Deface(name string) {
	h := c.f.Response(c.c)
	for _, value := range h.PeekAll(name) {
		clear(value)
		clear(append(value, "appended"...))
	}
	h.Set(name, "defaced")
}

func (c call[C]) Fail(status int, own bool) {
	*c.err = errors.New("failed")
	if own {
		*c.err = c.f.Error(status, http.StatusText(status))
	}
}

func (c call[C]) Hijack() {
	c.f.Hijack(c.c, func(conn net.Conn) { _, _ = io.WriteString(conn, limittest.HijackedResponse) })
}

func (c call[C]) Stream(next func() (string, bool)) {
	c.f.Stream(c.c, func(w *bufio.Writer) {
		for chunk, more := next(); more; chunk, more = next() {
			_, _ = w.WriteString(chunk)
			_ = w.Flush()
		}
	})
}
