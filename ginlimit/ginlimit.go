package ginlimit

import (
	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Config adapts a limiter to an application. Its zero value is ready to use.
type Config struct {
	// Skip reports requests that pass without being limited or charged.
	// Defaults to none.
	Skip func(*gin.Context) bool

	// Denied answers a denied request. The chain is aborted and the decision's
	// headers are set by then, and those of the response that is not going to be
	// are removed; status and body are yours, d.Status() being the usual one.
	// Defaults to a body of type application/problem+json.
	Denied func(c *gin.Context, d core.Decision)
}

// Limit returns middleware that enforces limits on a store, all else by default.
//
// It panics if a limit can never work, such as one without By, one whose name
// another limit of the store has, or none at all; so call it at start-up, not
// while serving. [core.New] returns the same as an error.
func Limit(store core.Store, limits ...core.Limit) gin.HandlerFunc {
	return New(core.ForLimits(store, limits))
}

// New returns middleware that asks limiter. It panics if limiter is nil or if
// there is more than one Config. One limiter may serve in several places.
func New(limiter *core.Limiter, config ...Config) gin.HandlerFunc {
	if limiter == nil {
		panic("weblimit: ginlimit.New: the limiter is nil")
	}
	if len(config) > 1 {
		panic("weblimit: ginlimit.New: more than one Config")
	}
	var h handler
	if len(config) == 1 {
		h.config = config[0]
	}
	h.limiter = adapter.New(limiter, "gin")
	return h.handle
}

// FromContext returns the decision on the request. Of several limiters it is the
// one nearest to the handler. It reports false if none decided the request.
// Code that has no gin.Context gets it from the context of c.Request, by
// [core.FromContext].
func FromContext(c *gin.Context) (core.Decision, bool) {
	return core.FromContext(c.Request.Context())
}

// Charge adds n units to what the request has really cost, for limits that
// estimate; see [core.Charge].
func Charge(c *gin.Context, n int64) error { return core.Charge(c.Request.Context(), n) }

type handler struct {
	limiter *adapter.Limiter
	config  Config
}

// handle returns to Gin, which then calls the next handler, rather than calling
// c.Next, if the limiter has nothing to do afterwards.
func (h *handler) handle(c *gin.Context) {
	if h.config.Skip != nil && h.config.Skip(c) {
		return
	}
	d, r := stdhttp.Decide(h.limiter, request{c}, c.Request, c.Writer.Header())
	c.Request = r
	if h.limiter.Reserved(d) {
		follow(c, d)
		return
	}
	if d.Allowed {
		return
	}
	c.Abort()
	if h.config.Denied != nil {
		stdhttp.ClearValidators(c.Writer.Header())
		h.config.Denied(c, *d)
		return
	}
	stdhttp.Deny(c.Writer, c.Request, d)
}
