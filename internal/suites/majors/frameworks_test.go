package majors

import (
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
)

// newer are the frameworks whose adapters are modules of their own.
var newer = []frameworks.Framework{{Name: "Echo", New: newEcho}, {Name: "Fiber", New: newFiber}}

// server is an application on Echo 5.
type server struct {
	frameworks.Std
	echo *echo.Echo
}

func newEcho() frameworks.App {
	s := &server{echo: echo.New()}
	s.echo.Logger = slog.New(slog.DiscardHandler)
	s.Handler = s.echo
	return s
}

func (s *server) Limiter(l *core.Limiter) any { return echo5limit.New(l) }
func (s *server) Use(middleware ...any) {
	s.echo.Use(frameworks.Each[echo.MiddlewareFunc](middleware)...)
}

func (s *server) Recover() any {
	return middleware.RecoverWithConfig(middleware.RecoverConfig{DisableStackAll: true, DisablePrintStack: true})
}

func (s *server) Local(name string, value func(*http.Request) any) any {
	return echo.MiddlewareFunc(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Set(name, value(c.Request()))
			return next(c)
		}
	})
}

func (s *server) Handle(method, path string, h frameworks.Handler, middleware ...any) {
	handler := func(c *echo.Context) error {
		for _, p := range c.PathValues() {
			c.Request().SetPathValue(p.Name, p.Value)
		}
		return h(c.Response(), c.Request())
	}
	if method == "" {
		method = echo.RouteAny
	}
	s.echo.Add(method, frameworks.Colons.Replace(path), handler, frameworks.Each[echo.MiddlewareFunc](middleware)...)
}

// fast is an application on Fiber 3.
type fast struct{ app *fiber.App }

func newFiber() frameworks.App { return fast{fiber.New()} }

func (f fast) Limiter(l *core.Limiter) any                { return fiber3limit.New(l) }
func (f fast) Recover() any                               { return recover.New() }
func (f fast) Use(middleware ...any)                      { f.app.Use(middleware...) }
func (f fast) Do(r *http.Request) (*http.Response, error) { return f.app.Test(r, fiber.TestConfig{}) }

func (f fast) Shutdown() { _ = f.app.ShutdownWithTimeout(time.Second) }

func (f fast) Serve(l net.Listener) error {
	return f.app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
}

func (f fast) Local(name string, value func(*http.Request) any) any {
	return func(c fiber.Ctx) error {
		r, err := adaptor.ConvertRequest(c, false)
		if err != nil {
			return err
		}
		c.Locals(name, value(r))
		return c.Next()
	}
}

func (f fast) Handle(method, path string, h frameworks.Handler, middleware ...any) {
	chain := slices.Concat(middleware, []any{func(c fiber.Ctx) error {
		var failure error
		err := adaptor.HTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, name := range c.Route().Params {
				r.SetPathValue(name, c.Params(name))
			}
			failure = h(w, r)
		})(c)
		if failure != nil {
			return failure
		}
		return err
	}})
	if path = frameworks.Colons.Replace(path); method == "" {
		f.app.All(path, chain[0], chain[1:]...)
	} else {
		f.app.Add([]string{method}, path, chain[0], chain[1:]...)
	}
}
