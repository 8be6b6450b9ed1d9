package majors

import (
	"fmt"
	"strings"
	"testing"

	fiber2 "github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v3"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

var limit = core.PerHour(9).By(keyfuncs.Everyone())

// Whoever takes the adapter of another major version of a framework is told at start-up, as the
// documentation of the adapters quotes it.
func TestTheAdapterOfAnotherMajorPanicsAtStartUp(t *testing.T) {
	t.Parallel()
	two, three := fiberlimit.Limit(core.NewMemory(), limit), fiber3limit.Limit(core.NewMemory(), limit)
	const ofTwo, ofThree = "invalid handler func(*fiber.Ctx) error", "invalid handler func(fiber.Ctx) error"
	ok := func(fiber.Ctx) error { return nil }
	by := func(key keyfuncs.Func) core.Limit { return core.PerHour(9).By(key) }
	for name, tt := range map[string]struct {
		start func()
		want  string
	}{
		"fiberlimit in Use of Fiber 3":        {func() { fiber.New().Use(two) }, ofTwo},
		"fiberlimit in a group of Fiber 3":    {func() { fiber.New().Group("/api", two) }, "invalid handler #0 (func(*fiber.Ctx) error)"},
		"fiberlimit on a route of Fiber 3":    {func() { fiber.New().Get("/", two, ok) }, "invalid handler #0 (func(*fiber.Ctx) error)"},
		"fiberlimit behind a handler":         {func() { fiber.New().Get("/", ok, two) }, "invalid handler #1 (func(*fiber.Ctx) error)"},
		"fiberlimit.Measure in Fiber 3":       {func() { fiber.New().Use(fiberlimit.With(core.Config{Store: core.NewMemory()}).Measure(new(core.Load))) }, ofTwo},
		"fiber3limit in Use of Fiber 2":       {func() { fiber2.New().Use(three) }, ofThree},
		"fiber3limit below a prefix, Fiber 2": {func() { fiber2.New().Use("/api", three) }, ofThree},
		"nethttp in Use of Fiber 3":           {func() { fiber.New().Use(nethttp.Limit(core.NewMemory(), limit)) }, "invalid handler func(http.Handler) http.Handler"},
		"a key of Fiber 2 in fiber3limit":     {func() { fiber3limit.Limit(core.NewMemory(), by(fiberlimit.Key("x", (*fiber2.Ctx).Hostname))) }, "reads a *fiber.Ctx, which requests of the adapter fiber do not have (they have fiber.Ctx)"},
		"a condition of Fiber 2":              {func() { fiber3limit.Limit(core.NewMemory(), limit.When(fiberlimit.Matches((*fiber2.Ctx).Secure))) }, "reads a *fiber.Ctx, which requests of the adapter fiber do not have (they have fiber.Ctx)"},
		"a key of Fiber 3 in fiberlimit":      {func() { fiberlimit.Limit(core.NewMemory(), by(fiber3limit.Key("x", fiber.Ctx.Hostname))) }, "reads a fiber.Ctx, which requests of the adapter fiber do not have (they have *fiber.Ctx)"},
		"a key of Echo 4 in echo5limit":       {func() { echo5limit.Limit(core.NewMemory(), by(echolimit.Key("x", echo4.Context.Path))) }, "(they have *echo.Context and *http.Request)"},
		"a key of Echo 5 in echolimit":        {func() { echolimit.Limit(core.NewMemory(), by(echo5limit.Key("x", (*echo.Context).Path))) }, "(they have echo.Context and *http.Request)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, tt.want) {
					t.Errorf("panic %q, want one with %q", said, tt.want)
				}
			}()
			tt.start()
		})
	}
}

// Echo takes typed middleware, so the wrong adapter does not compile.
func TestTheAdapterOfAnotherEchoDoesNotCompile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"./testdata/echo4on5": `cannot use echolimit.Limit(nil) (value of func type "github.com/labstack/echo/v4".MiddlewareFunc) as "github.com/labstack/echo/v5".MiddlewareFunc`,
		"./testdata/echo5on4": `cannot use echo5limit.Limit(nil) (value of func type "github.com/labstack/echo/v5".MiddlewareFunc) as "github.com/labstack/echo/v4".MiddlewareFunc`,
	} {
		if err := program.Build(t.TempDir(), ".", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
