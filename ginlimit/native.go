package ginlimit

import (
	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Key returns a key that a function of yours makes of the request, where "" means that it has
// none:
//
//	ginlimit.Key("item", func(c *gin.Context) string { return c.Param("id") })
//
// It is [keyfuncs.Custom] with a *gin.Context: kind, escaping and security are as there. The closure must not
// keep c, which Gin reuses. c.Param is known everywhere, since Gin routes before any middleware.
//
// A limiter with such a key serves this adapter only: another adapter panics at start-up. Where
// there is no adapter, as in [core.Limiter.Allow] with a request of your own, the key is missing.
func Key(kind string, f func(c *gin.Context) string) keyfuncs.Func {
	return adapter.Key(kind, native, f)
}

// Matches returns a condition that a function of yours decides, for [core.Limit.When],
// [core.Limit.Unless], Config.Bypass and combinations of conditions:
//
//	ginlimit.Matches(func(c *gin.Context) bool { return c.Param("id") == "0" })
//
// It is [keyfuncs.Matches] with a *gin.Context, and safe as there. It serves this adapter only, like
// [Key]. Where there is no adapter its answer is [keyfuncs.Unknown]: a limit applies, and an
// exemption does not.
func Matches(f func(c *gin.Context) bool) keyfuncs.Condition { return adapter.Matches(native, f) }

// native returns the *gin.Context of a request of this adapter.
func native(r keyfuncs.Request) (*gin.Context, bool) {
	g, ok := r.(request)
	return g.c, ok
}
