package conformance

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gincors "github.com/gin-contrib/cors"
	chicors "github.com/go-chi/cors"
	fibercors "github.com/gofiber/fiber/v2/middleware/cors"
	"github.com/labstack/echo/v4/middleware"
	"github.com/rs/cors"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// site is an application with a handler for POST /items, a handler for all methods of /rpc, a limiter, and
// the framework's usual CORS middleware before or behind the limiter. Handlers call ran.
func site(f frameworks.Framework, cors map[string]any, l *core.Limiter, corsFirst bool, ran func()) frameworks.App {
	app := f.New()
	if corsFirst {
		app.Use(cors[f.Name], app.Limiter(l))
	} else {
		app.Use(app.Limiter(l), cors[f.Name])
	}
	work := func(http.ResponseWriter, *http.Request) error { ran(); return nil }
	app.Handle("POST", "/items", work)
	app.Handle("", "/rpc", work)
	return app
}

// usual are CORS middleware that let all origins in.
var usual = map[string]any{
	"net/http": cors.Default().Handler,
	"chi":      chicors.Handler(chicors.Options{AllowedOrigins: []string{"*"}}),
	"Gin":      gincors.Default(),
	"Echo":     middleware.CORS(),
	"Fiber":    fibercors.New(),
}

func preflight(path string) *http.Request {
	r := httptest.NewRequest("OPTIONS", path, strings.NewReader(`{"method":"transfer"}`))
	r.Header.Set("Origin", "https://app.example")
	r.Header.Set("Access-Control-Request-Method", "POST")
	return r
}

func answer(t *testing.T, app frameworks.App, r *http.Request) (status int, allowed bool) {
	t.Helper()
	res := must.Get(app.Do(r))(t)
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header.Get("Access-Control-Allow-Origin") != ""
}

// A CORS middleware before the limiter answers preflights itself, and none counts.
func TestCORSBeforeTheLimiter(t *testing.T) {
	t.Parallel()
	for _, f := range frameworks.All {
		name := f.Name
		ran := 0
		l := core.ForLimits(core.NewMemory(), []core.Limit{core.PerDay(3).By(keyfuncs.Everyone())})
		s := site(f, usual, l, true, func() { ran++ })
		for range 10 {
			for _, path := range []string{"/items", "/rpc", "/nowhere"} {
				if status, allowed := answer(t, s, preflight(path)); status/100 != 2 || !allowed {
					t.Errorf("%s: preflight of %s: %d, allowed %v", name, path, status, allowed)
				}
			}
		}
		if ran != 0 {
			t.Errorf("%s: preflights reached %d handlers", name, ran)
		}
		for i := range 5 {
			r := httptest.NewRequest("POST", "/items", nil)
			r.Header.Set("Origin", "https://app.example")
			status, allowed := answer(t, s, r)
			if want := i < 3; (status != http.StatusTooManyRequests) != want || !allowed {
				t.Errorf("%s: request %d: %d, allowed %v", name, i+1, status, allowed)
			}
		}
		check.Equal(t, name+": requests reached the handler", ran, 3)
	}
}

// Behind the limiter, with preflights exempt, it answers those that match no route.
// Preflights to a handler for all methods count.
func TestCORSBehindTheLimiter(t *testing.T) {
	t.Parallel()
	for _, f := range frameworks.All {
		name := f.Name
		l := core.Must(core.New(core.Config{
			Store: core.NewMemory(), Limits: []core.Limit{core.PerDay(3).By(keyfuncs.Everyone())},
			Bypass: []keyfuncs.Condition{keyfuncs.Preflight()},
		}))
		s := site(f, usual, l, false, func() {})
		answer(t, s, httptest.NewRequest("POST", "/items", nil)) // one of three
		for range 10 {
			if status, allowed := answer(t, s, preflight("/items")); status/100 != 2 || !allowed {
				t.Errorf("%s: preflight of /items: %d, allowed %v", name, status, allowed)
			}
		}
		denied := 0
		for range 10 {
			if status, _ := answer(t, s, preflight("/rpc")); status == http.StatusTooManyRequests {
				denied++
			}
		}
		check.Equal(t, name+": of 10 preflights of a handler for all methods denied", denied, 8)
	}
}
