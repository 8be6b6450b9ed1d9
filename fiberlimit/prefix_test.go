package fiberlimit_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Trap: a condition on what a handler of Use answers, silently never true because
// there are other routes.
func TestConditionOnAPrefixOfUse(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "x"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok := func(c *fiber.Ctx) error { return c.SendString("ok") }
	for name, fill := range map[string]func(app *fiber.App, limit fiber.Handler){
		"none below": func(app *fiber.App, limit fiber.Handler) { app.Use("/api", limit); app.Use("/api", ok) },
		"one below": func(app *fiber.App, limit fiber.Handler) {
			app.Use("/api", limit)
			app.Get("/api/y", ok)
			app.Use("/api", ok)
		},
		"one beside": func(app *fiber.App, limit fiber.Handler) {
			app.Use("/api", limit)
			app.Get("/apiary", ok)
			app.Use("/api", ok)
		},
		"limit of all": func(app *fiber.App, limit fiber.Handler) { app.Use(limit); app.Get("/y", ok); app.Use("/api", ok) },
		"parameter":    func(app *fiber.App, limit fiber.Handler) { app.Use(limit); app.Get("/y", ok); app.Use("/:x", ok) },
		"files": func(app *fiber.App, limit fiber.Handler) {
			app.Use(limit)
			app.Get("/y", ok)
			app.Static("/api", files)
		},
	} {
		for _, route := range []string{"/api", "/api/*", "GET /api/*"} {
			if name == "parameter" {
				route = "/:x/*"
			}
			app := fiber.New()
			fill(app, fiberlimit.New(core.Must(core.New(core.Config{
				Store:   core.NewMemory(),
				Limits:  []core.Limit{core.PerHour(2).By(keyfuncs.Everyone()).When(keyfuncs.Routes(route))},
				Silence: []core.Advice{core.AdviceRoute},
			}))))
			status := func(path string) int {
				response, err := app.Test(httptest.NewRequest("GET", path, nil), -1)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
				return response.StatusCode
			}
			for i, want := range []int{200, 200, 429} {
				if got := status("/api/x"); got != want {
					t.Errorf("%s, %s: request %d: %d, want %d", name, route, i+1, got, want)
				}
			}
			if name != "parameter" && status("/y") == 429 {
				t.Errorf("%s, %s: another route is limited", name, route)
			}
		}
	}
}
