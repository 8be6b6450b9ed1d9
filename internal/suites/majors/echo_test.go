// Code generated from internal/suites/frameworks/echo.go by make twins; DO NOT EDIT.

package majors

import (
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echo5limit"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
)

// server is an application on Echo.
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
		s.echo.Any(frameworks.Colons.Replace(path), handler, frameworks.Each[echo.MiddlewareFunc](middleware)...)
	} else {
		s.echo.Add(method, frameworks.Colons.Replace(path), handler, frameworks.Each[echo.MiddlewareFunc](middleware)...)
	}
}
