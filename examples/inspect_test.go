package examples_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
)

// The code of docs/run/inspect.md: see readme_test.go.

func docsInspect(r *gin.Engine, server *http.Server, store *redisstore.Store, perUser core.Limit) {
	heavy := top.New(top.Config{Exchange: store.Exchange()})
	limits := ginlimit.With(core.Config{Store: store, Observe: heavy})

	page, err := inspect.New(inspect.Config{
		Store: store,
		Top:   heavy,
		Users: []inspect.User{{Name: "ops", Password: os.Getenv("INSPECT_PASSWORD"), May: inspect.Act}},
		Hosts: []string{"admin.example.com"},
	})
	if err != nil {
		slog.Error("no page for limits", "error", err)
		os.Exit(1)
	}
	r.Any("/ops/limits/*path", gin.WrapH(page))
	server.RegisterOnShutdown(page.Close)
	r.Use(limits.Limit(perUser))
}

type staff struct {
	email  string
	onCall bool
}

func docsInspectAuthorize(store core.Store, heavy *top.Tracker, staffOf func(context.Context) *staff, nameOf func(key string) string) inspect.Config {
	config := inspect.Config{
		Store: store,
		Top:   heavy,
		Authorize: func(r *http.Request) (actor string, may inspect.Permission) {
			person := staffOf(r.Context()) // by your own login, in front of the page
			switch {
			case person == nil:
				return "", inspect.None // 401
			case person.onCall:
				return person.email, inspect.Act
			}
			return person.email, inspect.Read
		},
		Hosts: []string{"admin.example.com"},
		Label: nameOf, // "apikey#giszrYfBSKCiClunzV68qg" is "Acme Ltd"
	}
	return config
}

var _, _ = docsInspect, docsInspectAuthorize // compiled, and not called

// The page works behind each router as docs/run/inspect.md mounts it.
func TestInspectBehindEachRouter(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	heavy := top.New(top.Config{})
	t.Cleanup(heavy.Close)
	page, err := inspect.New(inspect.Config{
		Store: store, Top: heavy, Logger: slog.New(slog.DiscardHandler),
		Authorize: func(*http.Request) (string, inspect.Permission) { return "test", inspect.Act },
	})
	if err != nil {
		t.Fatal(err)
	}
	core.ForLimits(store, []core.Limit{core.PerMinute(60).By(keyfuncs.Header("X-User")).Named("per-user")})
	mux, g, e, c, f := http.NewServeMux(), gin.New(), echo.New(), chi.NewRouter(), fiber.New()
	mux.Handle("/ops/limits/", page)
	g.Any("/ops/limits/*path", gin.WrapH(page))
	e.Any("/ops/limits/*", echo.WrapHandler(page))
	c.Mount("/ops/limits/", page)
	f.All("/ops/limits/*", adaptor.HTTPHandler(page))
	send := func(h http.Handler) func(*http.Request) int {
		return func(r *http.Request) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
	}
	for name, serve := range map[string]func(*http.Request) int{
		"ServeMux": send(mux), "Gin": send(g), "Echo": send(e), "chi": send(c), "Fiber": func(r *http.Request) int {
			res, err := f.Test(r, -1)
			if err != nil {
				t.Error(err)
				return 0
			}
			defer res.Body.Close()
			return res.StatusCode
		},
	} {
		for path, body := range map[string]string{
			"": "", "app.js": "", "api/v1/overview": "", "api/v1/explain": `{"query":"42"}`, "api/v1/reset": `{"key":"header.x-user:42"}`,
		} {
			method := http.MethodGet
			if body != "" {
				method = http.MethodPost
			}
			r := httptest.NewRequest(method, "/ops/limits/"+path, strings.NewReader(body))
			r.Host = "127.0.0.1"
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Weblimit-Inspect", "1")
			if status := serve(r); status != http.StatusOK {
				t.Errorf("%s: %s %q is answered with %d", name, method, path, status)
			}
		}
	}
}
