package conformance

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

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

// exposing are CORS middleware that expose the headers to pages of other origins, as docs/use/headers.md says.
var exposing = map[string]any{
	"net/http": cors.New(cors.Options{ExposedHeaders: core.ExposeHeaders()}).Handler,
	"chi":      chicors.Handler(chicors.Options{ExposedHeaders: core.ExposeHeaders()}),
	"Gin":      gincors.New(gincors.Config{AllowAllOrigins: true, ExposeHeaders: core.ExposeHeaders()}),
	"Echo":     middleware.CORSWithConfig(middleware.CORSConfig{ExposeHeaders: core.ExposeHeaders()}),
	"Fiber":    fibercors.New(fibercors.Config{ExposeHeaders: strings.Join(core.ExposeHeaders(), ", ")}),
}

// A page of another origin can read every header that a limiter sets, on a 200, a 429 and a 401.
func TestPagesCanReadTheHeaders(t *testing.T) {
	t.Parallel()
	everyone := core.PerMonth(1, time.UTC).By(keyfuncs.Everyone()).Named("all").WarnAt(0.5)
	for _, f := range frameworks.All {
		name := f.Name
		build := func(l *core.Limiter) frameworks.App { return site(f, exposing, l, true, func() {}) }
		for _, dialects := range []core.Headers{core.Draft11 | core.Draft03 | core.XRateLimit | core.XQuota, core.Draft07 | core.XRateLimitDelta} {
			s := build(core.Must(core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone}, Headers: dialects})))
			keyless := build(core.Must(core.New(core.Config{
				Store: core.NewMemory(), Headers: dialects,
				Limits: []core.Limit{core.PerDay(1).By(keyfuncs.APIKey("X-API-Key")).OnMissingKey(core.DenyRequest)},
			})))
			want := []string{"X-Ratelimit-Warning", "Retry-After", "Www-Authenticate"}
			for i, s := range []frameworks.App{s, s, keyless} {
				r := httptest.NewRequest("POST", "/items", nil)
				r.Header.Set("Origin", "https://app.example")
				res := must.Get(s.Do(r))(t)
				_ = res.Body.Close()
				check.Equal(t, name, res.StatusCode, []int{200, 429, 401}[i])
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
