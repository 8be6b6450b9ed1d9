// Code generated from internal/suites/frameworks/fiber.go by make twins; DO NOT EDIT.

package majors

import (
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
)

// fast is an application on Fiber.
type fast struct{ app *fiber.App }

func newFiber() frameworks.App { return fast{fiber.New()} }

func (f fast) Limiter(l *core.Limiter) any { return fiber3limit.New(l) }
func (f fast) Recover() any                { return recover.New() }
func (f fast) Use(middleware ...any)       { f.app.Use(middleware...) }

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
	chain := append(frameworks.Each[any](middleware), func(c fiber.Ctx) error {
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
		f.app.All(frameworks.Colons.Replace(path), chain[0], chain[1:]...)
	} else {
		f.app.Add([]string{method}, frameworks.Colons.Replace(path), chain[0], chain[1:]...)
	}
}

func (f fast) Do(r *http.Request) (*http.Response, error) { return f.app.Test(r, fiber.TestConfig{}) }
func (f fast) Serve(l net.Listener) error {
	return f.app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
}
func (f fast) Shutdown() { _ = f.app.ShutdownWithTimeout(time.Second) }
