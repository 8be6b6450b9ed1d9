package fiberlimit

import (
	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// allow returns Allow of a guard.
func (config Config) allow(g *adapter.Guard) func(*fiber.Ctx, string, int64) (bool, error) {
	if fiber.IsChild() && g.InProcess() {
		panic("weblimit: fiberlimit.Settings.Guard: " + inMemory)
	}
	var (
		known routes
		cache settingsCache
	)
	return func(c *fiber.Ctx, key string, cost int64) (ok bool, err error) {
		if config.Skip != nil && config.Skip(c) {
			return true, nil
		}
		in := acquire(c, &known, cache.of(c))
		d := g.Decide(in, key, cost)
		adapter.SetHeaders(&d, in.header(), &in.headers)
		in.release()
		switch {
		case d.Allowed:
		case config.Denied != nil:
			err = config.denied(c, &d)
		default:
			deny(c, &d)
		}
		return d.Allowed, err
	}
}

// measure returns middleware by which load measures the handlers behind it. Fiber reads the body before them and
// sends the response after them, so they don't wait for clients, unless the body is streamed.
func measure(load *core.Load) fiber.Handler {
	var (
		known routes
		cache settingsCache
	)
	return func(c *fiber.Ctx) error {
		if c.Request().IsBodyStream() {
			return c.Next()
		}
		in := acquire(c, &known, cache.of(c))
		work := load.Begin(in)
		in.release()
		defer work.End() // also if the handler panics
		return c.Next()
	}
}
