package adversary

import (
	"errors"
	"net"
	"net/http"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
)

var attacked = []*Framework{
	{"net/http", OverNetHTTP("net/http"), true, ServeStd(std(0))},
	{"chi", OverNetHTTP("chi"), true, ServeStd(std(1))},
	{"gin", OverNetHTTP("gin"), true, ServeStd(std(2))},
	{"echo", OverNetHTTP("echo"), true, ServeStd(std(3))},
	{"fiber", OverFastHTTP(), false, serveFiber},
}

// std builds the application on one of the frameworks over net/http.
func std(i int) func(*core.Limiter) http.Handler { return Std(frameworks.All[i]) }

func serveFiber(ln net.Listener, limiter *core.Limiter, onRoute, _ bool) {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(func(c *fiber.Ctx) error {
		v, leave, ok := Enter(c.Context().Conn(), limiter, string(c.Request().Header.Method()), string(c.Request().Header.RequestURI()))
		if !ok {
			return fiber.ErrServiceUnavailable
		}
		defer leave()
		c.SetUserContext(v.Context())
		c.Locals(visitKey{}, v)
		if user, ok := SignedIn(v.target); ok {
			c.Locals(UserKey, user)
		}
		err := c.Next()
		v.status = c.Response().StatusCode()
		var own *fiber.Error
		switch {
		case errors.As(err, &own):
			v.status = own.Code
		case err != nil:
			v.status = http.StatusInternalServerError
		}
		return err
	}, recover.New())
	limit := fiberlimit.New(limiter)
	if !onRoute {
		app.Use(limit)
	}
	for _, route := range Routes {
		handlers := []fiber.Handler{func(c *fiber.Ctx) error { return handleFiber(c, route) }}
		if onRoute {
			handlers = []fiber.Handler{limit, handlers[0]}
		}
		app.All(Colons.Replace(route), handlers...)
	}
	_ = app.Listener(ln) // until it closes
}

func handleFiber(c *fiber.Ctx, route string) error {
	v := c.Locals(visitKey{}).(*Visit)
	d, _ := fiberlimit.FromContext(c)
	return v.Fast(route, c.Params("n"), d, func(n int64) error { return core.Spend(c.UserContext(), n) }, c)
}
