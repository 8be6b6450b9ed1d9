package kit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/kit"
	"github.com/weblimit/weblimit/nethttp"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.TestMode)
	m.Run()
}

func ok(http.ResponseWriter, *http.Request) {}

var frameworks = map[string]kit.Build{
	"net/http": func(store core.Store, limits ...core.Limit) func(*http.Request) (*http.Response, error) {
		return kit.Handler(nethttp.Limit(store, limits...)(http.HandlerFunc(ok)))
	},
	"chi": func(store core.Store, limits ...core.Limit) func(*http.Request) (*http.Response, error) {
		r := chi.NewRouter()
		r.With(chilimit.Limit(store, limits...)).Get("/", ok)
		return kit.Handler(r)
	},
	"Gin": func(store core.Store, limits ...core.Limit) func(*http.Request) (*http.Response, error) {
		r := gin.New()
		r.GET("/", ginlimit.Limit(store, limits...), func(c *gin.Context) { c.Status(http.StatusOK) })
		return kit.Handler(r)
	},
	"Echo": func(store core.Store, limits ...core.Limit) func(*http.Request) (*http.Response, error) {
		e := echo.New()
		e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) }, echolimit.Limit(store, limits...))
		return kit.Handler(e)
	},
	"Fiber": func(store core.Store, limits ...core.Limit) func(*http.Request) (*http.Response, error) {
		app := fiber.New()
		app.Get("/", fiberlimit.Limit(store, limits...), func(c *fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
		return func(r *http.Request) (*http.Response, error) { return app.Test(r, -1) }
	},
}

func TestOnEachFramework(t *testing.T) {
	t.Parallel()
	for name, build := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit.Run(t, build)
		})
	}
}

func TestInABubble(t *testing.T) {
	t.Parallel()
	// Outside of the bubbles, so that none waits for the goroutine that fasthttp starts here.
	if res, err := fiber.New().Test(httptest.NewRequest("GET", "/", nil), -1); err != nil {
		t.Fatal(err)
	} else if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	for name, build := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit.RunInBubble(t, build)
		})
	}
}
