package echo5limit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func hello(c *echo.Context) error { return c.String(http.StatusOK, "hello") }

// Echo tells from the first request whether it has routed: a request that no route matches has
// none, and in Pre the route is not known, which is advised.
func TestWhetherARouteIsKnown(t *testing.T) {
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
			e.Pre(echo5limit.New(l))
		} else {
			e.Use(echo5limit.New(l))
		}
		for i, path := range []string{"/nowhere", "/", "/nowhere"} {
			if ask(e, "GET", path); known == pre {
				t.Errorf("in Pre %v, request %d: known %v", pre, i+1, known)
			}
		}
		ask(e, "DELETE", "/")
		if known == pre {
			t.Errorf("in Pre %v, another method: known %v", pre, known)
		}
		if advised := strings.Contains(log.String(), "put the limiter into Use"); advised != pre {
			t.Errorf("in Pre %v: logged %q", pre, log.String())
		}
	}
}
