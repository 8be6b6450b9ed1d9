package conformance

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gincors "github.com/gin-contrib/cors"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chicors "github.com/go-chi/cors"
	"github.com/gofiber/fiber/v2"
	fibercors "github.com/gofiber/fiber/v2/middleware/cors"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/rs/cors"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

func init() { gin.SetMode(gin.ReleaseMode) } // here, since tests run beside each other

// site answers a request.
type site func(r *http.Request) *http.Response

func served(h http.Handler) site {
	return func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
}

// frameworks build a site with a handler for POST /items, a handler for all methods of
// /rpc, the limiter, and the framework's usual CORS middleware before or behind the limiter.
// Handlers call ran.
var frameworks = map[string]func(l *core.Limiter, corsFirst bool, ran func()) site{
	"net/http": func(l *core.Limiter, corsFirst bool, ran func()) site {
		mux := http.NewServeMux()
		work := func(http.ResponseWriter, *http.Request) { ran() }
		mux.HandleFunc("POST /items", work)
		mux.HandleFunc("/rpc", work)
		limit := nethttp.New(l, nethttp.Config{Mux: mux})
		if corsFirst {
			return served(cors.Default().Handler(limit(mux)))
		}
		return served(limit(cors.Default().Handler(mux)))
	},
	"chi": func(l *core.Limiter, corsFirst bool, ran func()) site {
		r := chi.NewRouter()
		work := func(http.ResponseWriter, *http.Request) { ran() }
		use(corsFirst, func(m func(http.Handler) http.Handler) { r.Use(m) }, chicors.Handler(chicors.Options{AllowedOrigins: []string{"*"}}), chilimit.New(l))
		r.Post("/items", work)
		r.HandleFunc("/rpc", work)
		return served(r)
	},
	"Gin": func(l *core.Limiter, corsFirst bool, ran func()) site {
		e := gin.New()
		work := func(*gin.Context) { ran() }
		use(corsFirst, func(m gin.HandlerFunc) { e.Use(m) }, gincors.Default(), ginlimit.New(l))
		e.POST("/items", work)
		e.Any("/rpc", work)
		return served(e)
	},
	"Echo": func(l *core.Limiter, corsFirst bool, ran func()) site {
		e := echo.New()
		work := func(echo.Context) error { ran(); return nil }
		use(corsFirst, func(m echo.MiddlewareFunc) { e.Use(m) }, middleware.CORS(), echolimit.New(l))
		e.POST("/items", work)
		e.Any("/rpc", work)
		return served(e)
	},
	"Fiber": func(l *core.Limiter, corsFirst bool, ran func()) site {
		app := fiber.New()
		work := func(*fiber.Ctx) error { ran(); return nil }
		use(corsFirst, func(m fiber.Handler) { app.Use(m) }, fibercors.New(), fiberlimit.New(l))
		app.Post("/items", work)
		app.All("/rpc", work)
		return func(r *http.Request) *http.Response {
			res, err := app.Test(r, -1)
			if err != nil {
				panic(err)
			}
			return res
		}
	},
}

// use installs a CORS middleware and a limiter in the given order.
func use[M any](corsFirst bool, use func(M), cors, limiter M) {
	if corsFirst {
		use(cors)
		use(limiter)
		return
	}
	use(limiter)
	use(cors)
}

func preflight(path string) *http.Request {
	r := httptest.NewRequest("OPTIONS", path, strings.NewReader(`{"method":"transfer"}`))
	r.Header.Set("Origin", "https://app.example")
	r.Header.Set("Access-Control-Request-Method", "POST")
	return r
}

func answer(s site, r *http.Request) (status int, allowed bool) {
	res := s(r)
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Header.Get("Access-Control-Allow-Origin") != ""
}

// A CORS middleware before the limiter answers preflights itself, and none counts.
func TestCORSBeforeTheLimiter(t *testing.T) {
	t.Parallel()
	for name, build := range frameworks {
		ran := 0
		l := core.ForLimits(core.NewMemory(), []core.Limit{core.PerDay(3).By(keyfuncs.Everyone())})
		s := build(l, true, func() { ran++ })
		for range 10 {
			for _, path := range []string{"/items", "/rpc", "/nowhere"} {
				if status, allowed := answer(s, preflight(path)); status/100 != 2 || !allowed {
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
			status, allowed := answer(s, r)
			if want := i < 3; (status != http.StatusTooManyRequests) != want || !allowed {
				t.Errorf("%s: request %d: %d, allowed %v", name, i+1, status, allowed)
			}
		}
		if ran != 3 {
			t.Errorf("%s: %d requests reached the handler, want 3", name, ran)
		}
	}
}

// Behind the limiter, with preflights exempt, it answers those that match no route.
// Preflights to a handler for all methods count.
func TestCORSBehindTheLimiter(t *testing.T) {
	t.Parallel()
	for name, build := range frameworks {
		l := core.Must(core.New(core.Config{
			Store: core.NewMemory(), Limits: []core.Limit{core.PerDay(3).By(keyfuncs.Everyone())},
			Bypass: []keyfuncs.Condition{keyfuncs.Preflight()},
		}))
		s := build(l, false, func() {})
		answer(s, httptest.NewRequest("POST", "/items", nil)) // one of three
		for range 10 {
			if status, allowed := answer(s, preflight("/items")); status/100 != 2 || !allowed {
				t.Errorf("%s: preflight of /items: %d, allowed %v", name, status, allowed)
			}
		}
		denied := 0
		for range 10 {
			if status, _ := answer(s, preflight("/rpc")); status == http.StatusTooManyRequests {
				denied++
			}
		}
		if denied != 8 {
			t.Errorf("%s: %d of 10 preflights of a handler for all methods were denied, want 8", name, denied)
		}
	}
}
