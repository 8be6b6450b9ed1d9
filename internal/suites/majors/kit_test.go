package majors

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/internal/test/kit"
)

var builds = map[string]kit.Build{
	"Echo 5": func(store core.Store, limits ...core.Limit) func(*http.Request) (*http.Response, error) {
		e := echo.New()
		e.GET("/", func(c *echo.Context) error { return c.NoContent(http.StatusOK) }, echo5limit.Limit(store, limits...))
		return kit.Handler(e)
	},
	"Fiber 3": func(store core.Store, limits ...core.Limit) func(*http.Request) (*http.Response, error) {
		app := fiber.New()
		app.Get("/", fiber3limit.Limit(store, limits...), func(c fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
		return func(r *http.Request) (*http.Response, error) { return app.Test(r, fiber.TestConfig{}) }
	},
}

func TestTheKit(t *testing.T) {
	t.Parallel()
	for name, build := range builds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit.Run(t, build)
		})
	}
}

func TestTheKitInABubble(t *testing.T) {
	t.Parallel()
	// Outside of the bubbles, so that none waits for the goroutine that fasthttp starts here.
	if res, err := fiber.New().Test(httptest.NewRequest("GET", "/", http.NoBody), fiber.TestConfig{}); err != nil {
		t.Fatal(err)
	} else if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	for name, build := range builds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit.RunInBubble(t, build)
		})
	}
}
