package ginlimit

import (
	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Config adapts a limiter to an application. Its zero value is ready to use.
type Config struct {
	// Skip reports whether a request passes without asking the limiter: it is not limited, not
	// charged, and not observed. Defaults to none.
	Skip func(*gin.Context) bool

	// Denied answers a denied request: it sets status and body, and the usual status is
	// d.Status(). Before, the chain is aborted, the decision's headers are set, and headers that
	// described the response of the handler are removed. A body without a status is sent with
	// d.Status(). A Denied that neither writes nor sets another status or an error of Gin is
	// followed by [Deny]. Defaults to a body of type application/problem+json.
	Denied func(c *gin.Context, d core.Decision)

	// NoContext leaves the decision out of the request's context, which saves a copy of the request: a
	// quarter to a third of what a limit in memory costs. FromContext then does not find it, and it is
	// not noticed that the limiter decides a request twice. Requests with something reserved, as by
	// Estimate, RefundOn or Concurrent, have their decision as always. Defaults to false.
	NoContext bool
}

// Limit returns middleware that enforces limits on a store, with the defaults for everything
// else.
//
// It panics if there is no limit, or one that can never work, such as a limit without By or
// with the name of another limit of the store. So call it at start-up, not while serving.
// [core.New] returns the same as an error.
func Limit(store core.Store, limits ...core.Limit) gin.HandlerFunc {
	return New(core.ForLimits(store, limits))
}

// New returns middleware that asks limiter. It panics if limiter is nil or has a key or condition
// of another framework, or if there is more than one Config. One limiter may serve in several
// places.
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
	h.limiter = adapter.New(limiter, "gin", "*gin.Context", "*http.Request")
	return h.handle
}

// FromContext returns the decision on the request, if there are several limiters that of the one
// nearest to the handler. It returns false if no limiter decided the request,
// or only limiters with [Config.NoContext].
// Code that has no gin.Context gets it from the context of c.Request, by
// [core.FromContext].
func FromContext(c *gin.Context) (core.Decision, bool) {
	return core.FromContext(c.Request.Context())
}

// Spend adds n units to the real cost of the request, for all limits with an estimate or for
// those named; see [core.Spend].
func Spend(c *gin.Context, n int64, limits ...string) error {
	return core.Spend(c.Request.Context(), n, limits...)
}

// Deny answers a denied request as the limiter does without [Config.Denied], for a Denied that
// also logs or counts. It sends status and problem body, in the language of Accept-Language if
// Config.Details of package core has it; the headers of the decision must be set already.
func Deny(c *gin.Context, d core.Decision) { stdhttp.Deny(c.Writer, c.Request, &d) }

type handler struct {
	limiter *adapter.Limiter
	config  Config
}

// handle calls c.Next only if it has something to do afterwards. Otherwise it returns, and Gin calls
// the next handler.
func (h *handler) handle(c *gin.Context) {
	if h.config.Skip != nil && h.config.Skip(c) {
		return
	}
	decide := stdhttp.Decide
	if h.config.NoContext {
		decide = stdhttp.DecideWithoutContext
	}
	d, r := decide(h.limiter, request{c}, c.Request, c.Writer.Header())
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
		h.config.denied(c, d)
		return
	}
	stdhttp.Deny(c.Writer, c.Request, d)
}

// denied has the application's hook answer a denial. A body without a status gets that of the
// decision. A hook that does nothing is answered for as usual; one that has set another status, or
// an error for middleware around, has answered.
func (config *Config) denied(c *gin.Context, d *core.Decision) {
	c.Status(d.Status())
	errs := len(c.Errors)
	config.Denied(c, *d)
	if !c.Writer.Written() && c.Writer.Status() == d.Status() && len(c.Errors) == errs {
		stdhttp.Deny(c.Writer, c.Request, d)
	}
}
