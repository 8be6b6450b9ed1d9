package echolimit_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

func hello(c echo.Context) error { return c.String(http.StatusOK, "hello") }

// Whether the limiter stands in Pre is learned from the first request with a route:
// until then a request without one may have one, and nothing is said about it.
func TestWhetherARouteIsKnownIsLearned(t *testing.T) {
	t.Parallel()
	for _, pre := range []bool{false, true} {
		var log bytes.Buffer
		var known bool
		l := core.Must(core.New(core.Config{
			Store: core.NewMemory(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Limits: []core.Limit{core.PerDay(1000).By(keyfuncs.Route(), keyfuncs.Custom("look", func(r keyfuncs.Request) string {
				_, known = r.Route()
				return "x"
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

// A group answers what none of its routes matches by a route of its own.
func TestRouteOfAGroupsOwnAnswer(t *testing.T) {
	t.Parallel()
	var seen []string
	probe := echolimit.Limit(core.NewMemory(), core.PerHour(1000).By(keyfuncs.Custom("probe", func(r keyfuncs.Request) string {
		route, _ := r.Route()
		seen = append(seen, route)
		return "x"
	})))
	e := echo.New()
	e.Use(probe)
	e.Group("/api", probe).GET("/users/:id", hello)
	ask(e, "GET", "/api/nowhere")
	check.Equal(t, "around all, and in the group", fmt.Sprint(seen), "[/api/* /api/*]")
}

// Routers of hosts do not list their routes, so nothing is said of a route that may be one of theirs.
func TestARouteThatMayBeThatOfAHost(t *testing.T) {
	t.Parallel()
	for _, hosts := range []bool{false, true} {
		var log bytes.Buffer
		l := core.Must(core.New(core.Config{
			Store: core.NewMemory(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Limits: []core.Limit{core.PerDay(1000).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /admin"))},
		}))
		e := echo.New()
		e.Use(echolimit.New(l))
		e.GET("/", hello)
		if hosts {
			e.Host("admin.example.com").POST("/admin", hello)
		}
		ask(e, "GET", "/")
		check.Equal(t, fmt.Sprintf("advised with routers of hosts: %v", hosts), strings.Contains(log.String(), "POST /admin"), !hosts)
	}
}
