package echo5limit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// foreign is a response of middleware that does not show Echo's own.
type foreign struct{ w http.ResponseWriter }

func (f foreign) Header() http.Header         { return f.w.Header() }
func (f foreign) Write(b []byte) (int, error) { return f.w.Write(b) }
func (f foreign) WriteHeader(code int)        { f.w.WriteHeader(code) }

// A hook that does nothing, or writes a body alone, does not turn a denial into a 200 where middleware has replaced
// Echo's response.
func TestDenialsOnAResponseOfSomebodyElse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		denied func(c *echo.Context, d core.Decision) error
		want   string
	}{
		"no hook":            {nil, "429 {"},
		"nothing is written": {func(*echo.Context, core.Decision) error { return nil }, "429 {"},
		"a body alone":       {func(c *echo.Context, _ core.Decision) error { _, err := c.Response().Write([]byte("no")); return err }, "429 no"},
		"a status alone":     {func(c *echo.Context, _ core.Decision) error { return c.NoContent(http.StatusTeapot) }, "418 "},
		"an error":           {func(*echo.Context, core.Decision) error { return echo.ErrForbidden }, "403 {"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := echo5limit.With(core.Config{Store: core.NewMemory()}, echo5limit.Config{Denied: tt.denied})
			guard := limits.Guard(core.PerHour(1).Named("guard"))
			e := echo.New()
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) error {
					c.SetResponse(foreign{c.Response()})
					return next(c)
				}
			})
			e.GET("/limit", hello, limits.Limit(core.PerHour(1).By(keyfuncs.Everyone())))
			e.GET("/guard", func(c *echo.Context) error {
				if ok, err := guard.Allow(c, "", 1); !ok {
					return err
				}
				return hello(c)
			})
			for _, path := range []string{"/limit", "/guard"} {
				ask(e, "GET", path)
				w := httptest.NewRecorder()
				e.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
				if got := fmt.Sprint(w.Code, " ", w.Body); !strings.HasPrefix(got, tt.want) || tt.want == "418 " && got != tt.want {
					t.Errorf("%s: %s, want %s", path, got, tt.want)
				}
			}
		})
	}
}

// Tests of applications call middleware with a context that has no Echo.
func TestAContextWithoutAnEcho(t *testing.T) {
	t.Parallel()
	limit := echo5limit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.ClientIP(keyfuncs.Framework())).When(keyfuncs.Routes("/a")))
	w := httptest.NewRecorder()
	check.OK(t, limit(hello)(echo.NewContext(httptest.NewRequest("GET", "/", nil), w)))
	check.Equal(t, "status", w.Code, http.StatusOK)
}
