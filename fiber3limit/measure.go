// Code generated from fiberlimit/measure.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Measure returns middleware by which load measures the handlers behind it; see [core.Load]. Fiber
// reads the body before them and sends the response after them, so handlers don't wait for
// clients. Requests whose body is streamed (StreamRequestBody) are not measured. It panics if
// load is nil.
func Measure(load *core.Load) fiber.Handler {
	if load == nil {
		panic("weblimit: fiber3limit.Measure: the load is nil")
	}
	var (
		known routes
		cache settingsCache
	)
	return func(c fiber.Ctx) error {
		if c.Request().IsBodyStream() {
			return c.Next()
		}
		in := acquire(c, &known, cache.of(c))
		work := adapter.Begin(load, in)
		in.release()
		defer work.End() // also if the handler panics
		return c.Next()
	}
}
