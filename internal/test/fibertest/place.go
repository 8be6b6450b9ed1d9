package fibertest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

// Each place of a limiter sees the template of the route that is going to answer.
func (s suite[C]) routeByPlace(t *testing.T) {
	t.Parallel()
	found := make(map[string]string)
	at := func(place string) func(C) error {
		reader := s.f.Reader()
		return func(c C) error {
			r, release := reader(c)
			defer release()
			found[place], _ = r.Route()
			return c.Next()
		}
	}
	end := func(c C) error { return c.SendStatus(http.StatusNoContent) }

	app := s.app()
	app.Use("", at("app"))
	app.Use("/items", at("prefix"))
	app.Get("/", at("root"), end)
	app.Get("/items/:id", at("route"), end)
	app.Get("/files/*", at("files"), end)
	app.Add("", "/all/:x?", at("all"), end)
	api := app.Group("/api", at("group"))
	api.Get("/", at("api root"), end)
	api.Get("/users/:id", at("users"), end)
	tenant := api.Group("/:tenant/", at("tenant"))
	tenant.Get("/books/:id", at("books"), end)
	sub := s.app()
	sub.Use("", at("sub"))
	sub.Get("/x/:id", at("x"), end)
	app.Mount("/mounted", sub)

	for _, tt := range []struct {
		method, path string
		template     string
		places       []string
	}{
		{"GET", "/", "/", []string{"app", "root"}},
		{"GET", "/items/1?x=/", "/items/:id", []string{"app", "prefix", "route"}},
		{"HEAD", "/items/1", "/items/:id", []string{"app", "prefix", "route"}},
		{"GET", "/ITEMS/1/", "/items/:id", []string{"app", "prefix", "route"}},
		{"GET", "/files/a/b", "/files/*", []string{"app", "files"}},
		{"DELETE", "/all/1", "/all/:x?", []string{"all", "app"}},
		{"GET", "/api", "/api/", []string{"api root", "app", "group"}},
		{"GET", "/api/users/1", "/api/users/:id", []string{"app", "group", "users"}},
		{"GET", "/api/acme/books/1", "/api/:tenant/books/:id", []string{"app", "books", "group", "tenant"}},
		{"GET", "/mounted/x/1", "/mounted/x/:id", []string{"app", "sub", "x"}},
		{"GET", "/nowhere", "", []string{"app"}},
		{"GET", "/api/nowhere", "", []string{"app", "group", "tenant"}},
		{"DELETE", "/items/1", "", []string{"app", "prefix"}},
	} {
		for range 2 {
			clear(found)
			ask(t, app, tt.method, tt.path)
			for place, got := range found {
				check.Equal(t, fmt.Sprintf("%s %s: %s", tt.method, tt.path, place), got, tt.template)
			}
			if places := slices.Sorted(maps.Keys(found)); !slices.Equal(places, tt.places) {
				t.Errorf("%s %s: seen at %q, want %q", tt.method, tt.path, places, tt.places)
			}
		}
	}
}

// A limiter for "*" stands in front of all routes, as one of Use without a path does.
func (s suite[C]) routeBehindAStar(t *testing.T) {
	t.Parallel()
	var found []string
	app, reader := s.app(), s.f.Reader()
	app.Use("*", func(c C) error {
		r, release := reader(c)
		defer release()
		route, ok := r.Route()
		found = append(found, fmt.Sprint(route, " ", ok))
		return c.Next()
	})
	app.Get("/items/:id", func(c C) error { return c.SendStatus(http.StatusNoContent) })
	for _, path := range []string{"/items/1", "/nowhere"} {
		ask(t, app, "GET", path)
	}
	if want := []string{"/items/:id true", " true"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}
