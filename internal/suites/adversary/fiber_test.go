package adversary

import (
	"errors"
	"net"
	"net/http"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
)

type visitLocal struct{}

// serveFiber serves an application whose middleware is in Use, for a path.
func serveFiber(use string) func(ln net.Listener, limiter *core.Limiter, onRoute, http2 bool) {
	return func(ln net.Listener, limiter *core.Limiter, onRoute, _ bool) {
		app := fiberApp(use, limiter, onRoute)
		_ = app.Listener(ln) // until it closes
	}
}

// fiberApp has its middleware in Use, for a path.
func fiberApp(use string, limiter *core.Limiter, onRoute bool) *fiber.App {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(use, func(c *fiber.Ctx) error {
		method, target := string(c.Request().Header.Method()), string(c.Request().Header.RequestURI())
		v, leave, ok := Enter(c.Context().Conn(), limiter, method, target)
		if !ok {
			return fiber.ErrServiceUnavailable
		}
		defer leave()
		c.SetUserContext(v.Context())
		c.Locals(visitLocal{}, v)
		if user, ok := SignedIn(target); ok {
			c.Locals(UserKey, user)
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
	limit := fiberlimit.New(limiter)
	if !onRoute {
		app.Use(use, limit)
	}
	for _, route := range Routes {
		handler := func(c *fiber.Ctx) error {
			d, _ := fiberlimit.FromContext(c)
			v := c.Locals(visitLocal{}).(*Visit)
			return v.Fast(route, c.Params("n"), d, func(n int64) error { return core.Spend(c.UserContext(), n) }, c.Response().BodyWriter())
		}
		path := Colons.Replace(route)
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
