package conformance

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

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

// exposing build a site whose CORS middleware, before the limiter, exposes its headers to
// pages of other origins, as docs/headers.md says.
var exposing = map[string]func(l *core.Limiter) site{
	"net/http": func(l *core.Limiter) site {
		c := cors.New(cors.Options{ExposedHeaders: core.ExposeHeaders()})
		return served(c.Handler(nethttp.New(l)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	},
	"chi": func(l *core.Limiter) site {
		r := chi.NewRouter()
		r.Use(chicors.Handler(chicors.Options{ExposedHeaders: core.ExposeHeaders()}), chilimit.New(l))
		r.Get("/", func(http.ResponseWriter, *http.Request) {})
		return served(r)
	},
	"Gin": func(l *core.Limiter) site {
		e := gin.New()
		e.Use(gincors.New(gincors.Config{AllowAllOrigins: true, ExposeHeaders: core.ExposeHeaders()}), ginlimit.New(l))
		e.GET("/", func(*gin.Context) {})
		return served(e)
	},
	"Echo": func(l *core.Limiter) site {
		e := echo.New()
		e.Use(middleware.CORSWithConfig(middleware.CORSConfig{ExposeHeaders: core.ExposeHeaders()}), echolimit.New(l))
		e.GET("/", func(echo.Context) error { return nil })
		return served(e)
	},
	"Fiber": func(l *core.Limiter) site {
		app := fiber.New()
		app.Use(fibercors.New(fibercors.Config{ExposeHeaders: strings.Join(core.ExposeHeaders(), ", ")}), fiberlimit.New(l))
		app.Get("/", func(*fiber.Ctx) error { return nil })
		return func(r *http.Request) *http.Response {
			res, err := app.Test(r, -1)
			if err != nil {
				panic(err)
			}
			return res
		}
	},
}

// A page of another origin can read every header that a limiter sets, on a 200, a 429 and a 401.
func TestPagesCanReadTheHeaders(t *testing.T) {
	t.Parallel()
	everyone := core.PerMonth(1, time.UTC).By(keyfuncs.Everyone()).Named("all").WarnAt(0.5)
	for name, build := range exposing {
		for _, dialects := range []core.Headers{core.Draft11 | core.Draft03 | core.XRateLimit | core.XQuota, core.Draft07 | core.XRateLimitDelta} {
			s := build(core.Must(core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone}, Headers: dialects})))
			keyless := build(core.Must(core.New(core.Config{
				Store: core.NewMemory(), Headers: dialects,
				Limits: []core.Limit{core.PerDay(1).By(keyfuncs.APIKey("X-API-Key")).OnMissingKey(core.DenyRequest)},
			})))
			want := []string{"X-Ratelimit-Warning", "Retry-After", "Www-Authenticate"}
			for i, s := range []site{s, s, keyless} {
				r := httptest.NewRequest("GET", "/", nil)
				r.Header.Set("Origin", "https://app.example")
				res := s(r)
				_ = res.Body.Close()
				if status := []int{200, 429, 401}[i]; res.StatusCode != status {
					t.Errorf("%s: got %d, want %d", name, res.StatusCode, status)
				}
				readable, hidden := readableHeaders(res)
				if !slices.Contains(readable, want[i]) {
					t.Errorf("%s: a page can read %v of the %d, want %s too", name, readable, res.StatusCode, want[i])
				}
				for _, field := range hidden {
					if strings.Contains(field, "Ratelimit") || strings.Contains(field, "Quota") {
						t.Errorf("%s: a page can't read %s of the %d", name, field, res.StatusCode)
					}
				}
			}
		}
	}
}

// readableHeaders returns the names of fields that a page of another origin may read, and
// of the others, by the Fetch standard's CORS filter.
func readableHeaders(res *http.Response) (readable, hidden []string) {
	exposed := []string{"Cache-Control", "Content-Language", "Content-Length", "Content-Type", "Expires", "Last-Modified", "Pragma"}
	for _, line := range res.Header.Values("Access-Control-Expose-Headers") {
		for name := range strings.SplitSeq(line, ",") {
			exposed = append(exposed, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	for name := range res.Header {
		if slices.Contains(exposed, http.CanonicalHeaderKey(name)) {
			readable = append(readable, http.CanonicalHeaderKey(name))
		} else {
			hidden = append(hidden, http.CanonicalHeaderKey(name))
		}
	}
	return readable, hidden
}
