// Code generated from echolimit/native.go by make twins; DO NOT EDIT.

package echo5limit

import (
	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Key returns a key that a function of yours makes of the request, where "" means that it has
// none:
//
//	echo5limit.Key("item", func(c *echo.Context) string { return c.Param("id") })
//
// It is [keyfuncs.Custom] with an *echo.Context: kind, escaping and security are as there. The closure must not
// keep c, which Echo reuses. c.Param is known everywhere but in e.Pre.
//
// A limiter with such a key serves this adapter only: another adapter panics at start-up. Where
// there is no adapter, as in [core.Limiter.Allow] with a request of your own, the key is missing.
func Key(kind string, f func(c *echo.Context) string) keyfuncs.Func {
	return adapter.Key(kind, native, f)
}

// Matches returns a condition that a function of yours decides, for [core.Limit.When],
// [core.Limit.Unless], Config.Bypass and combinations of conditions:
//
//	echo5limit.Matches(func(c *echo.Context) bool { return c.Param("id") == "0" })
//
// It is [keyfuncs.Matches] with an *echo.Context, and safe as there. It serves this adapter only, like
// [Key]. Where there is no adapter its answer is [keyfuncs.Unknown]: a limit applies, and an
// exemption does not.
func Matches(f func(c *echo.Context) bool) keyfuncs.Condition { return adapter.Matches(native, f) }

// native returns the *echo.Context of a request of this adapter.
func native(r keyfuncs.Request) (*echo.Context, bool) {
	e, ok := r.(*request)
	if !ok {
		return nil, false
	}
	return e.c, true
}
