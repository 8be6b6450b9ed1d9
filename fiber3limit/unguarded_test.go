package fiber3limit

import (
	"bufio"
	"io"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Fiber 3 calls routes for "*", but no middleware of Use without a path, if the target has no path.
func TestTargetsWithoutAPath(t *testing.T) {
	t.Parallel()
	ok := func(c fiber.Ctx) error { return c.SendString("ok") }
	for name, tt := range map[string]struct {
		fill            func(app *fiber.App, limit fiber.Handler)
		limited, advice bool
	}{
		"no star":           {func(app *fiber.App, limit fiber.Handler) { app.Use(limit); app.All("/x", ok) }, false, false},
		"a route behind":    {func(app *fiber.App, limit fiber.Handler) { app.Use(limit); app.Post("*", ok) }, false, true},
		"a handler behind":  {func(app *fiber.App, limit fiber.Handler) { app.Use("/", limit); app.Use("*", ok) }, false, true},
		"a limiter of star": {func(app *fiber.App, limit fiber.Handler) { app.Use("*", limit); app.All("/*", ok) }, true, false},
		"on the route":      {func(app *fiber.App, limit fiber.Handler) { app.All("/*", limit, ok) }, true, false},
		"of a prefix":       {func(app *fiber.App, limit fiber.Handler) { app.Use("/x", limit); app.All("/*", ok) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := New(core.Must(core.New(core.Config{
				Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(99).By(keyfuncs.Everyone())}, Silence: []core.Advice{"WL011"},
			})))
			var known routes
			advice := ""
			app := fiber.New()
			tt.fill(app, func(c fiber.Ctx) error {
				advice = (&request{c: c, routes: &known}).Unguarded()
				return limit(c)
			})
			serve := listen(t, app)
			for _, target := range []string{"GET *", "OPTIONS *", "GET http://a?x", "GET http://a#x", "CONNECT b:80", "CONNECT b"} {
				if status, header := serve(target); (header.Get("RateLimit") != "") != tt.limited && !refused(target, status) {
					t.Errorf("%s: %d, RateLimit %q", target, status, header.Get("RateLimit"))
				}
			}
			if _, header := serve("GET /x"); header.Get("RateLimit") == "" {
				t.Errorf("GET /x is not limited")
			}
			if (advice != "") != tt.advice {
				t.Errorf("advice %q", advice)
			}
		})
	}
}

// The search for the route of a target without a path ends, and leaves no trace.
func TestTheRouteOfATargetWithoutAPath(t *testing.T) {
	t.Parallel()
	limit := New(core.Must(core.New(core.Config{
		Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(99).By(keyfuncs.Route()).When(keyfuncs.Routes("/*", "/x"))}, Silence: []core.Advice{"WL008"},
	})))
	pass := func(c fiber.Ctx) error { return c.Next() }
	ok := func(c fiber.Ctx) error { return c.SendString("ok") }
	for name, fill := range map[string]func(app *fiber.App){
		"a route in front, none behind":   func(app *fiber.App) { app.All("*", pass); app.Use("*", limit); app.Use("*", ok) },
		"a route for another method":      func(app *fiber.App) { app.Use("*", limit); app.Post("*", pass); app.Use("*", ok) },
		"a route in front and one behind": func(app *fiber.App) { app.All("*", pass); app.Use("*", limit); app.All("*", ok) },
	} {
		app := fiber.New()
		fill(app)
		serve := listen(t, app)
		for _, target := range []string{"GET *", "OPTIONS *", "GET http://a?x", "CONNECT b:80"} {
			status, header := serve(target)
			if allow := header.Get("Allow"); (status != fiber.StatusOK || allow != "") && !refused(target, status) {
				t.Errorf("%s, %s: %d, Allow %q", name, target, status, allow)
			}
		}
	}
}

// refused reports whether this is a release of fasthttp that refuses a star with methods other than OPTIONS.
func refused(target string, status int) bool {
	return target == "GET *" && status == fiber.StatusBadRequest
}

// listen serves an app, and returns a function that sends a request.
func listen(t *testing.T, app *fiber.App) func(target string) (status int, header http.Header) {
	t.Helper()
	l := fasthttputil.NewInmemoryListener()
	server := fasthttp.Server{Handler: app.Handler()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until it closes
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return func(target string) (int, http.Header) {
		conn := must.Get(l.Dial())(t)
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, target+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		answer := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		_ = answer.Body.Close()
		return answer.StatusCode, answer.Header
	}
}
