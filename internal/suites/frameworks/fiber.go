package frameworks

import (
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/gofiber/fiber/v2/middleware/recover"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
)

// fast is an application on Fiber.
type fast struct{ app *fiber.App }

func newFiber() App { return fast{fiber.New(fiber.Config{DisableStartupMessage: true})} }

func (f fast) Limiter(l *core.Limiter) any { return fiberlimit.New(l) }
func (f fast) Recover() any                { return recover.New() }
func (f fast) Use(middleware ...any)       { f.app.Use(middleware...) }

func (f fast) Local(name string, value func(*http.Request) any) any {
	return func(c *fiber.Ctx) error {
		r, err := adaptor.ConvertRequest(c, false)
		if err != nil {
			return err
		}
		c.Locals(name, value(r))
		return c.Next()
	}
}

func (f fast) Handle(method, path string, h Handler, middleware ...any) {
	chain := append(Each[fiber.Handler](middleware), func(c *fiber.Ctx) error {
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
	})
	if method == "" {
		f.app.All(Colons.Replace(path), chain...)
	} else {
		f.app.Add(method, Colons.Replace(path), chain...)
	}
}

func (f fast) Do(r *http.Request) (*http.Response, error) { return f.app.Test(r, -1) }
func (f fast) Serve(l net.Listener) error                 { return f.app.Listener(l) }
func (f fast) Shutdown()                                  { _ = f.app.ShutdownWithTimeout(time.Second) }
