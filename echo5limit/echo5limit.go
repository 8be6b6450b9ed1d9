// Code generated from echolimit/echolimit.go by make twins; DO NOT EDIT.

package echo5limit

import (
	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Config adapts a limiter to an application. Its zero value is ready to use.
type Config struct {
	// Skip reports whether a request passes without asking the limiter: it is not limited, not
	// charged, and not observed. Defaults to none.
	Skip func(*echo.Context) bool

	// Denied answers a denied request: it sets status and body, and the usual status is
	// d.Status(). Before, the decision's headers are set, and headers that described the response
	// of the handler are removed. The middleware returns its error, so that
	// echo.NewHTTPError(d.Status(), "slow down") goes to the Echo's HTTPErrorHandler. A body
	// without a status is sent with d.Status(), and a Denied that writes nothing and returns no
	// error is followed by [Deny]. Defaults to a body of type application/problem+json.
	Denied func(c *echo.Context, d core.Decision) error

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
func Limit(store core.Store, limits ...core.Limit) echo.MiddlewareFunc {
	return New(core.ForLimits(store, limits))
}

// New returns middleware that asks limiter. It panics if limiter is nil or has a key or condition
// of another framework, or if there is more than one Config. One limiter may serve in several
// places.
func New(limiter *core.Limiter, config ...Config) echo.MiddlewareFunc {
	c := adapter.One("echo5limit.New", config)
	if limiter == nil {
		panic("weblimit: echo5limit.New: the limiter is nil")
	}
	h := &handler{limiter: adapter.New(limiter, "echo", "*echo.Context", "*http.Request"), config: c}
	// Echo 4 calls this once per request where it is for e.Use or e.Pre.
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error { return h.handle(c, next) }
	}
}

// Settings are what all limiters of an application share: store, bypasses, headers, denials.
// They are made by [With], and safe for concurrent use.
type Settings = adapter.SettingsOf[echo.MiddlewareFunc, func(c *echo.Context, key string, cost int64) (ok bool, err error)]

// Guard asks limits within a handler, for what only the handler knows:
//
//	perRecipient := limits.Guard(core.PerHour(20).Named("per-recipient"))
//	…
//	if ok, err := perRecipient.Allow(c, keyfuncs.Encode("to", message.To), 1); !ok {
//		return err
//	}
type Guard = adapter.GuardOf[func(c *echo.Context, key string, cost int64) (ok bool, err error)]

// With returns the settings for all limiters of an application, whether they are for all
// requests, a group or a route:
//
//	limits := echo5limit.With(core.Config{Store: store, Bypass: bypass}, echo5limit.Config{Denied: denied})
//	e.Use(limits.Limit(perClient))
//	e.POST("/login", handler, limits.Limit(login))
//
// A request that bypasses one of these limiters bypasses all of them, and all write the same
// headers. It panics if the configuration can never work, if it has Limits, which are those of
// Limit, or if there is more than one Config. So call it at start-up, not while serving.
func With(settings core.Config, config ...Config) *Settings {
	c := adapter.One("echo5limit.With", config)
	return adapter.NewSettingsOf(settings, adapter.Functions[echo.MiddlewareFunc, func(*echo.Context, string, int64) (bool, error)]{
		Name: "echo", Enforce: func(l *core.Limiter) echo.MiddlewareFunc { return New(l, c) }, Measure: measure, Allow: c.allow,
	})
}

// FromContext returns the decision on the request, if there are several limiters that of the one
// nearest to the handler. It returns false if no limiter decided the request,
// or only limiters with [Config.NoContext].
// Code that has no *echo.Context gets it from the context of c.Request(), by
// [core.FromContext].
func FromContext(c *echo.Context) (core.Decision, bool) {
	return core.FromContext(c.Request().Context())
}

// Deny answers a denied request as the limiter does without [Config.Denied], for a Denied that
// also logs or counts. It sends status and problem body, in the language of Accept-Language if
// Config.Details of package core has it; the headers of the decision must be set already.
func Deny(c *echo.Context, d core.Decision) error {
	stdhttp.Deny(c.Response(), c.Request(), &d)
	return nil
}

type handler struct {
	limiter *adapter.Limiter
	config  Config
	place   place
}

func (h *handler) handle(c *echo.Context, next echo.HandlerFunc) error {
	if h.config.Skip != nil && h.config.Skip(c) {
		return next(c)
	}
	next = h.place.watch(c, next)
	d := h.decide(c)
	switch {
	case h.limiter.Reserved(d):
		return follow(c, d, next)
	case d.Allowed:
		return next(c)
	case h.config.Denied != nil:
		stdhttp.ClearValidators(c.Response().Header())
		return h.config.denied(c, d)
	default:
		stdhttp.Deny(c.Response(), c.Request(), d)
		return nil
	}
}

func (h *handler) decide(c *echo.Context) *core.Decision {
	in := acquire(c, &h.place)
	asked := in.HTTPRequest()
	d, r := in.memory.Decide(h.limiter, in, asked, c.Response().Header(), h.config.NoContext)
	in.release()
	if r != asked {
		c.SetRequest(r)
	}
	return d
}

// allow returns Allow of a guard.
func (config Config) allow(g *adapter.Guard) func(*echo.Context, string, int64) (bool, error) {
	return func(c *echo.Context, key string, cost int64) (ok bool, err error) {
		if config.Skip != nil && config.Skip(c) {
			return true, nil
		}
		in := acquire(c, handlers)
		d := g.Decide(in, key, cost)
		in.release()
		if isCommitted(c) {
			return d.Allowed, nil
		}
		var hook func()
		if config.Denied != nil {
			hook = func() { err = config.denied(c, &d) }
		}
		stdhttp.Guard(c.Response(), c.Request(), &d, hook)
		return d.Allowed, err
	}
}

// measure returns middleware by which load measures the handlers behind it.
func measure(load *core.Load) echo.MiddlewareFunc {
	var where place
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			in := acquire(c, &where)
			work := load.Begin(in)
			in.release()
			defer work.End() // also if the handler panics
			stdhttp.MeasureBody(work, c.Request())
			setWriter(c, stdhttp.MeasureWriter(work, writerOf(c)))
			return next(c)
		}
	}
}
