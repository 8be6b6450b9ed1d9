package fiberlimit

import (
	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Measure returns middleware that has load measure the handlers behind it; see
// [core.Load]. Fiber reads the body before them and sends the response after them,
// so they wait for no client, but for those of requests whose body is streamed
// (StreamRequestBody), which are not measured. It panics if load is nil.
func Measure(load *core.Load) fiber.Handler {
	if load == nil {
		panic("weblimit: fiberlimit.Measure: the load is nil")
	}
	var (
		known routes
		cache settingsCache
	)
	return func(c *fiber.Ctx) error {
		if c.Request().IsBodyStream() {
			return c.Next()
		}
		in := acquire(c, &known, cache.of(c))
		work := adapter.Begin(load, in)
		in.release()
		defer work.End() // whatever the handler does: it may panic
		return c.Next()
	}
}
