// Code generated from fiberlimit/native.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Key returns a key that a function of yours makes of the request, where "" means that it has
// none:
//
//	fiber3limit.Key("item", func(c fiber.Ctx) string { return c.Params("id") })
//
// It is [keyfuncs.Custom] with a fiber.Ctx: kind, escaping and security are as there. What it returns is
// copied, so it may be c.Params("id"), whose bytes Fiber reuses; the closure must not keep c or
// what c returns. In app.Use and in groups c.Params has only the parameters of their prefix: put the limiter on the
// route.
//
// A limiter with such a key serves this adapter only: another adapter panics at start-up. Where
// there is no adapter, as in [core.Limiter.Allow] with a request of your own, the key is missing.
func Key(kind string, f func(c fiber.Ctx) string) keyfuncs.Func {
	return adapter.Key(kind, native, f)
}

// Matches returns a condition that a function of yours decides, for [core.Limit.When],
// [core.Limit.Unless], Config.Bypass and combinations of conditions:
//
//	fiber3limit.Matches(func(c fiber.Ctx) bool { return c.Params("id") == "0" })
//
// It is [keyfuncs.Matches] with a fiber.Ctx, and safe as there. It serves this adapter only, like
// [Key]. Where there is no adapter its answer is [keyfuncs.Unknown]: a limit applies, and an
// exemption does not.
func Matches(f func(c fiber.Ctx) bool) keyfuncs.Condition { return adapter.Matches(native, f) }

// native returns the fiber.Ctx of a request of this adapter.
func native(r keyfuncs.Request) (fiber.Ctx, bool) {
	f, ok := r.(*request)
	if !ok {
		return nil, false
	}
	return f.c, true
}
