package peers

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// weblimitNoContext does what other limiters do: handlers can't read the decision.
var weblimitNoContext = noContext(
	Peer{Name: "weblimit-no-context", Counts: "as weblimit, with NoContext: handlers can't read the decision"}, core.Always)

// weblimitSilent does what Echo's own limiter does.
var weblimitSilent = noContext(
	Peer{Name: "weblimit-no-headers", Counts: "as weblimit-no-context, without headers", Silent: true}, core.Never)

// noContext has p's middleware written with NoContext.
func noContext(p Peer, when core.HeadersWhen) Peer {
	limiter := func(q Quota) (*core.Limiter, error) {
		return core.New(core.Config{
			Store: core.NewMemory(), HeadersWhen: when,
			Limits: []core.Limit{weblimitQuota(q).By(keyfuncs.ClientIP())},
		})
	}
	p.Module = weblimitModule
	p.HTTP = func(q Quota) (func(http.Handler) http.Handler, error) {
		l, err := limiter(q)
		return nethttp.New(l, nethttp.Config{NoContext: true}), err
	}
	p.Gin = func(q Quota) (gin.HandlerFunc, error) {
		l, err := limiter(q)
		return ginlimit.New(l, ginlimit.Config{NoContext: true}), err
	}
	p.Echo = func(q Quota) (echo.MiddlewareFunc, error) {
		l, err := limiter(q)
		return echolimit.New(l, echolimit.Config{NoContext: true}), err
	}
	p.Fiber = func(q Quota) (fiber.Handler, error) {
		l, err := limiter(q)
		return fiberlimit.New(l, fiberlimit.Config{NoContext: true}), err
	}
	return p
}
