package frameworks

import (
	"io"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
)

// server is an application on Echo.
type server struct {
	Std
	echo *echo.Echo
}

func newEcho() App {
	s := &server{echo: echo.New()}
	s.echo.Logger.SetOutput(io.Discard)
	s.Handler = s.echo
	return s
}

func (s *server) Limiter(l *core.Limiter) any { return echolimit.New(l) }
func (s *server) Use(middleware ...any)       { s.echo.Use(Each[echo.MiddlewareFunc](middleware)...) }

func (s *server) Recover() any {
	return middleware.RecoverWithConfig(middleware.RecoverConfig{DisableStackAll: true, DisablePrintStack: true})
}

func (s *server) Local(name string, value func(*http.Request) any) any {
	return echo.MiddlewareFunc(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set(name, value(c.Request()))
			return next(c)
		}
	})
}

func (s *server) Handle(method, path string, h Handler, middleware ...any) {
	handler := func(c echo.Context) error {
		for _, name := range c.ParamNames() {
			c.Request().SetPathValue(name, c.Param(name))
		}
		return h(c.Response(), c.Request())
	}
	if method == "" {
		s.echo.Any(Colons.Replace(path), handler, Each[echo.MiddlewareFunc](middleware)...)
	} else {
		s.echo.Add(method, Colons.Replace(path), handler, Each[echo.MiddlewareFunc](middleware)...)
	}
}
