// Code generated from internal/suites/adversary/fiber_test.go by make twins; DO NOT EDIT.

package majors

import (
	"errors"
	"net"
	"net/http"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/internal/suites/adversary"
)

type visitLocal struct{}

// serveFiber serves an application whose middleware is in Use, for a path.
func serveFiber(use string) func(ln net.Listener, limiter *core.Limiter, onRoute, http2 bool) {
	return func(ln net.Listener, limiter *core.Limiter, onRoute, _ bool) {
		app := fiberApp(use, limiter, onRoute)
		_ = app.Listener(ln, fiber.ListenConfig{DisableStartupMessage: true}) // until it closes
	}
}

// fiberApp has its middleware in Use, for a path.
func fiberApp(use string, limiter *core.Limiter, onRoute bool) *fiber.App {
	app := fiber.New()
	app.Use(use, func(c fiber.Ctx) error {
		method, target := string(c.Request().Header.Method()), string(c.Request().Header.RequestURI())
		v, leave, ok := adversary.Enter(c.RequestCtx().Conn(), limiter, method, target)
		if !ok {
			return fiber.ErrServiceUnavailable
		}
		defer leave()
		c.SetContext(v.Context())
		c.Locals(visitLocal{}, v)
		if user, ok := adversary.SignedIn(target); ok {
			c.Locals(adversary.UserKey, user)
		}
		err := c.Next()
		status := c.Response().StatusCode()
		var own *fiber.Error
		switch {
		case errors.As(err, &own):
			status = own.Code
		case err != nil:
			status = http.StatusInternalServerError
		}
		v.Answered(status)
		return err
	}, recover.New())
	limit := fiber3limit.New(limiter)
	if !onRoute {
		app.Use(use, limit)
	}
	for _, route := range adversary.Routes {
		handler := func(c fiber.Ctx) error {
			d, _ := fiber3limit.FromContext(c)
			v := c.Locals(visitLocal{}).(*adversary.Visit)
			return v.Fast(route, c.Params("n"), d, func(n int64) error { return core.Spend(c.Context(), n) }, c.Response().BodyWriter())
		}
		path := adversary.Colons.Replace(route)
		switch {
		case path == "":
		case onRoute:
			app.All(path, limit, handler)
		default:
			app.All(path, handler)
		}
	}
	return app
}
