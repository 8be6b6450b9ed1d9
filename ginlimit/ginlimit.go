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
	c := adapter.One("ginlimit.New", config)
	if limiter == nil {
		panic("weblimit: ginlimit.New: the limiter is nil")
	}
	h := &handler{adapter.New(limiter, "gin", "*gin.Context", "*http.Request"), c}
	return h.handle
}

// Settings are what all limiters of an application share: store, bypasses, headers, denials.
// They are made by [With], and safe for concurrent use.
type Settings = adapter.SettingsOf[gin.HandlerFunc, func(c *gin.Context, key string, cost int64) bool]

// Guard asks limits within a handler, for what only the handler knows. Its Allow aborts the chain of a request that is
// denied, and the handler must return:
//
//	perRecipient := limits.Guard(core.PerHour(20).Named("per-recipient"))
//	…
//	if !perRecipient.Allow(c, keyfuncs.Encode("to", message.To), 1) {
//		return
//	}
type Guard = adapter.GuardOf[func(c *gin.Context, key string, cost int64) bool]

// With returns the settings for all limiters of an application, whether they are for all
// requests, a group or a route:
//
//	limits := ginlimit.With(core.Config{Store: store, Bypass: bypass}, ginlimit.Config{Denied: denied})
//	r.Use(limits.Limit(perClient))
//	r.POST("/login", limits.Limit(login), handler)
//
// A request that bypasses one of these limiters bypasses all of them, and all write the same
// headers. It panics if the configuration can never work, if it has Limits, which are those of
// Limit, or if there is more than one Config. So call it at start-up, not while serving.
func With(settings core.Config, config ...Config) *Settings {
	c := adapter.One("ginlimit.With", config)
	return adapter.NewSettingsOf(settings, adapter.Functions[gin.HandlerFunc, func(*gin.Context, string, int64) bool]{
		Name: "gin", Enforce: func(l *core.Limiter) gin.HandlerFunc { return New(l, c) }, Measure: measure, Allow: c.allow,
	})
}

// FromContext returns the decision on the request, if there are several limiters that of the one
// nearest to the handler. It returns false if no limiter decided the request,
// or only limiters with [Config.NoContext].
// Code that has no gin.Context gets it from the context of c.Request, by
// [core.FromContext].
func FromContext(c *gin.Context) (core.Decision, bool) {
	return core.FromContext(c.Request.Context())
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

// allow returns Allow of a guard.
func (config Config) allow(g *adapter.Guard) func(c *gin.Context, key string, cost int64) bool {
	return func(c *gin.Context, key string, cost int64) bool {
		if config.Skip != nil && config.Skip(c) {
			return true
		}
		d := g.Decide(request{c}, key, cost)
		if !d.Allowed {
			c.Abort()
		}
		if c.Writer.Written() {
			return d.Allowed
		}
		var hook func()
		if config.Denied != nil {
			hook = func() { config.denied(c, &d) }
		}
		stdhttp.Guard(c.Writer, c.Request, &d, hook)
		return d.Allowed
	}
}
