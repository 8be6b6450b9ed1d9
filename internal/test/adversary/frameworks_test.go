package adversary

import (
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/nethttp"
)

var frameworks = []*Framework{
	{"net/http", OverNetHTTP("net/http"), true, ServeStd(netHTTP)},
	{"chi", OverNetHTTP("chi"), true, ServeStd(chiRouter)},
	{"gin", OverNetHTTP("gin"), true, ServeStd(ginEngine)},
	{"echo", OverNetHTTP("echo"), true, ServeStd(echoServer)},
	{"fiber", OverFastHTTP(), false, serveFiber},
}

func netHTTP(limiter *core.Limiter) http.Handler {
	mux := http.NewServeMux()
	for _, route := range Routes {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			if Handle(w, r, route, r.PathValue("n")) != nil {
				http.Error(w, "failed", http.StatusInternalServerError)
			}
		})
	}
	return nethttp.New(limiter, nethttp.Config{Mux: mux})(mux)
}

func chiRouter(limiter *core.Limiter) http.Handler {
	mux := chi.NewRouter()
	mux.Use(chilimit.New(limiter))
	for _, route := range Routes {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			if Handle(w, r, route, chi.URLParam(r, "n")) != nil {
				http.Error(w, "failed", http.StatusInternalServerError)
			}
		})
	}
	return mux
}

func ginEngine(limiter *core.Limiter) http.Handler {
	engine := gin.New()
	engine.Use(gin.RecoveryWithWriter(io.Discard), func(c *gin.Context) {
		if user, ok := c.Request.Context().Value(ContextKey(UserKey)).(string); ok {
			c.Set(UserKey, user)
		}
	}, ginlimit.New(limiter))
	for _, route := range Routes {
		engine.Any(Colons.Replace(route), func(c *gin.Context) {
			if err := Handle(c.Writer, c.Request, route, c.Param("n")); err != nil {
				_ = c.AbortWithError(http.StatusInternalServerError, err)
			}
		})
	}
	return engine
}

func echoServer(limiter *core.Limiter) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{DisableStackAll: true, DisablePrintStack: true}), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set(UserKey, c.Request().Context().Value(ContextKey(UserKey)))
			return next(c)
		}
	}, echolimit.New(limiter))
	for _, route := range Routes {
		e.Any(Colons.Replace(route), func(c echo.Context) error {
			return Handle(c.Response(), c.Request(), route, c.Param("n"))
		})
	}
	return e
}

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
	return v.Fast(route, c.Params("n"), d, func(n int64) error { return fiberlimit.Charge(c, n) }, c)
}
