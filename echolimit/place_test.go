package echolimit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Whether the limiter stands in Pre is learned from the first request with a route:
// until then a request without one may have one, and nothing is said about it.
func TestWhetherARouteIsKnownIsLearned(t *testing.T) {
	t.Parallel()
	for _, pre := range []bool{false, true} {
		var log bytes.Buffer
		var known bool
		l := core.Must(core.New(core.Config{
			Store: core.NewMemory(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Limits: []core.Limit{core.PerDay(1000).By(keyfuncs.Route(), keyfuncs.Custom("look", func(r keyfuncs.Request) (string, bool) {
				_, known = r.Route()
				return "x", true
			}))},
		}))
		e := echo.New()
		e.GET("/", hello)
		if pre {
			e.Pre(echolimit.New(l))
		} else {
			e.Use(echolimit.New(l))
		}
		for i, tt := range []struct {
			path  string
			known bool
		}{{"/nowhere", false}, {"/nowhere", false}, {"/", !pre}, {"/nowhere", !pre}, {"/", !pre}} {
			if i == 2 && log.Len() > 0 {
				t.Errorf("in Pre %v: advice before anything is known: %s", pre, log.String())
			}
			if ask(e, "GET", tt.path); known != tt.known {
				t.Errorf("in Pre %v, request %d: known %v, want %v", pre, i+1, known, tt.known)
			}
		}
		if (log.Len() > 0) != pre {
			t.Errorf("in Pre %v: logged %q", pre, log.String())
		}
	}
}

// Trap 52: what Pre rewrites behind the limiter escapes no limit of a route.
func TestTrap52PreRewritesBehindTheLimiter(t *testing.T) {
	t.Parallel()
	limit := echolimit.Limit(core.NewMemory(), core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /login")))
	e, logins := echo.New(), 0
	e.Pre(limit, middleware.RemoveTrailingSlash())
	e.POST("/login", func(echo.Context) error { logins++; return nil })
	e.GET("/", hello)
	ask(e, "GET", "/")
	for range 20 {
		for _, path := range []string{"/login", "/login/"} {
			ask(e, "POST", path)
		}
	}
	if logins != 5 {
		t.Errorf("%d of 40 logins, want 5", logins)
	}
	if w := ask(e, "GET", "/"); w.Code != http.StatusOK {
		t.Errorf("another method: %d", w.Code)
	}
}
