package fiberlimit

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gofiber/fiber/v2"
)

// Each place of a limiter sees the template of the route that is going to answer.
func TestRoute(t *testing.T) {
	t.Parallel()
	found := make(map[string]string)
	at := func(place string) fiber.Handler {
		var known routes
		return func(c *fiber.Ctx) error {
			found[place], _ = (&request{c: c, routes: &known}).Route()
			return c.Next()
		}
	}
	end := func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) }

	app := fiber.New()
	app.Use(at("app"))
	app.Use("/items", at("prefix"))
	app.Get("/", at("root"), end)
	app.Get("/items/:id", at("route"), end)
	app.Get("/files/*", at("files"), end)
	app.All("/all/:x?", at("all"), end)
	api := app.Group("/api", at("group"))
	api.Get("/", at("api root"), end)
	api.Get("/users/:id", at("users"), end)
	tenant := api.Group("/:tenant/", at("tenant"))
	tenant.Get("/books/:id", at("books"), end)
	sub := fiber.New()
	sub.Use(at("sub"))
	sub.Get("/x/:id", at("x"), end)
	app.Mount("/mounted", sub)

	for _, tt := range []struct {
		method, path string
		want         map[string]string
	}{
		{"GET", "/", map[string]string{"app": "/", "root": "/"}},
		{"GET", "/items/1?x=/", map[string]string{"app": "/items/:id", "prefix": "/items/:id", "route": "/items/:id"}},
		{"HEAD", "/items/1", map[string]string{"app": "/items/:id", "prefix": "/items/:id", "route": "/items/:id"}},
		{"GET", "/ITEMS/1/", map[string]string{"app": "/items/:id", "prefix": "/items/:id", "route": "/items/:id"}},
		{"GET", "/files/a/b", map[string]string{"app": "/files/*", "files": "/files/*"}},
		{"DELETE", "/all/1", map[string]string{"app": "/all/:x?", "all": "/all/:x?"}},
		{"GET", "/api", map[string]string{"app": "/api/", "group": "/api/", "api root": "/api/"}},
		{"GET", "/api/users/1", map[string]string{"app": "/api/users/:id", "group": "/api/users/:id", "users": "/api/users/:id"}},
		{"GET", "/api/acme/books/1", map[string]string{
			"app": "/api/:tenant/books/:id", "group": "/api/:tenant/books/:id", "tenant": "/api/:tenant/books/:id", "books": "/api/:tenant/books/:id",
		}},
		{"GET", "/mounted/x/1", map[string]string{"app": "/mounted/x/:id", "sub": "/mounted/x/:id", "x": "/mounted/x/:id"}},
		{"GET", "/nowhere", map[string]string{"app": ""}},
		{"GET", "/api/nowhere", map[string]string{"app": "", "group": "", "tenant": ""}},
		{"DELETE", "/items/1", map[string]string{"app": "", "prefix": ""}},
	} {
		for range 2 {
			clear(found)
			res, err := app.Test(httptest.NewRequest(tt.method, tt.path, nil), -1)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			for place, want := range tt.want {
				if got, asked := found[place]; !asked || got != want {
					t.Errorf("%s %s: %s sees %q, %v, want %q", tt.method, tt.path, place, got, asked, want)
				}
			}
			if len(found) != len(tt.want) {
				t.Errorf("%s %s: seen %v, want %v", tt.method, tt.path, found, tt.want)
			}
		}
	}
}

// A limiter for "*" stands in front of all routes, as one of Use without a path does.
func TestRouteBehindAStar(t *testing.T) {
	t.Parallel()
	var known routes
	var found []string
	app := fiber.New()
	app.Use("*", func(c *fiber.Ctx) error {
		route, ok := (&request{c: c, routes: &known}).Route()
		found = append(found, fmt.Sprint(route, " ", ok))
		return c.Next()
	})
	app.Get("/items/:id", func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) })
	for _, path := range []string{"/items/1", "/nowhere"} {
		res, err := app.Test(httptest.NewRequest("GET", path, nil), -1)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if want := []string{"/items/:id true", " true"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}
