// Code generated from fiberlimit/fiberlimit.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Config adapts a limiter to an application. Its zero value is ready to use.
type Config struct {
	// Skip reports whether a request passes without asking the limiter: it is not limited, not
	// charged, and not observed. Defaults to none.
	Skip func(fiber.Ctx) bool

	// Denied answers a denied request: it sets status and body, and the usual status is
	// d.Status(). Before, the decision's headers are set, and headers that described the response
	// of the handler are removed. The middleware returns its error, so that
	// fiber.NewError(d.Status()) goes to the app's ErrorHandler. A body without a status is sent
	// with d.Status(), and a Denied that writes nothing and returns no error is followed by
	// [Deny]. Defaults to a body of type application/problem+json.
	Denied func(c fiber.Ctx, d core.Decision) error

	// NoContext leaves the decision out of the user context and the locals, which saves an allocation.
	// FromContext then does not find it, and it is not noticed that the limiter decides a request twice.
	// Requests with something reserved, as by Estimate, RefundOn or Concurrent, have their decision as
	// always. Defaults to false.
	NoContext bool
}

// Limit returns middleware that enforces limits on a store, with the defaults for everything
// else.
//
// It panics if there is no limit, or one that can never work, such as a limit without By or
// with the name of another limit of the store. So call it at start-up, not while serving.
// [core.New] returns the same as an error. It also panics as New does.
func Limit(store core.Store, limits ...core.Limit) fiber.Handler {
	return New(core.ForLimits(store, limits))
}

// New returns middleware that asks limiter. One limiter may serve in several places.
//
// It panics if limiter is nil or has a key or condition of another framework, or if there is more
// than one Config. It also panics in a process
// that Fiber has started for Prefork if the limiter counts in memory: each of these processes,
// one per processor core, would allow the whole limits. Use a store that they share, or serve
// without Prefork.
func New(limiter *core.Limiter, config ...Config) fiber.Handler {
	c := adapter.One("fiber3limit.New", config)
	if limiter == nil {
		panic("weblimit: fiber3limit.New: the limiter is nil")
	}
	h := &handler{limiter: adapter.New(limiter, "fiber", "fiber.Ctx"), config: c}
	if fiber.IsChild() && h.limiter.InProcess() {
		panic("weblimit: fiber3limit.New: " + inMemory)
	}
	return h.handle
}

// inMemory says why a limiter is refused in a process of Prefork.
const inMemory = "the limiter counts in memory, and with Prefork each process would by itself; use a store that they share, such as redisstore, or serve without Prefork"

// Settings are what all limiters of an application share: store, bypasses, headers, denials.
// They are made by [With], and safe for concurrent use.
type Settings = adapter.SettingsOf[fiber.Handler, func(c fiber.Ctx, key string, cost int64) (ok bool, err error)]

// Guard asks limits within a handler, for what only the handler knows:
//
//	perRecipient := limits.Guard(core.PerHour(20).Named("per-recipient"))
//	…
//	if ok, err := perRecipient.Allow(c, keyfuncs.Encode("to", message.To), 1); !ok {
//		return err
//	}
//
// It panics in a process of Prefork as [New] does.
type Guard = adapter.GuardOf[func(c fiber.Ctx, key string, cost int64) (ok bool, err error)]

// With returns the settings for all limiters of an application, whether they are for all
// requests, a group or a route:
//
//	limits := fiber3limit.With(core.Config{Store: store, Bypass: bypass}, fiber3limit.Config{Denied: denied})
//	app.Use(limits.Limit(perClient))
//	app.Post("/login", limits.Limit(login), handler)
//
// A request that bypasses one of these limiters bypasses all of them, and all write the same
// headers. It panics if the configuration can never work, if it has Limits, which are those of
// Limit, or if there is more than one Config. So call it at start-up, not while serving.
func With(settings core.Config, config ...Config) *Settings {
	c := adapter.One("fiber3limit.With", config)
	return adapter.NewSettingsOf(settings, adapter.Functions[fiber.Handler, func(fiber.Ctx, string, int64) (bool, error)]{
		Name: "fiber", Enforce: func(l *core.Limiter) fiber.Handler { return New(l, c) }, Measure: measure, Allow: c.allow,
	})
}

// FromContext returns the decision on the request, if there are several limiters that of the one
// nearest to the handler. It returns false if no limiter decided the request,
// or only limiters with [Config.NoContext].
// Code that has no fiber.Ctx gets it from c.Context(), by [core.FromContext].
// The decision may be kept after the request.
func FromContext(c fiber.Ctx) (core.Decision, bool) {
	if ctx, ok := c.Locals(decisionLocal).(*adapter.Context); ok {
		return ctx.Decision, true
	}
	return core.Decision{}, false
}

// Deny answers a denied request as the limiter does without [Config.Denied], for a Denied that
// also logs or counts. It sends status and problem body, in the language of Accept-Language if
// Config.Details of package core has it; the headers of the decision must be set already.
func Deny(c fiber.Ctx, d core.Decision) error {
	deny(c, &d)
	return nil
}

// localKey is a type of its own, so that no other local has the same key.
type localKey string

// decisionLocal is the local that holds the decision, since other middleware may replace the user
// context that holds it, too.
const decisionLocal localKey = "weblimit.decision"

type handler struct {
	limiter  *adapter.Limiter
	config   Config
	routes   routes
	settings settingsCache
}

func (h *handler) handle(c fiber.Ctx) error {
	if h.config.Skip != nil && h.config.Skip(c) {
		return c.Next()
	}
	d, lost := h.decide(c)
	var err error
	switch {
	case h.limiter.Reserved(d):
		err = follow(c, d)
	case d.Allowed:
		err = c.Next()
	case h.config.Denied != nil:
		return h.config.denied(c, d)
	default:
		deny(c, d)
		return nil
	}
	if lost {
		h.routes.learn(c)
	}
	return err
}

// denied has the application's hook answer a denial. A body without a status gets that of the
// decision, and a hook that leaves status and body alone and returns no error is answered for as
// usual.
func (config *Config) denied(c fiber.Ctx, d *core.Decision) error {
	clearValidators(c)
	res := c.Response()
	res.ResetBody()
	res.SetStatusCode(d.Status())
	err := config.Denied(c, *d)
	if err == nil && res.StatusCode() == d.Status() && !res.IsBodyStream() && len(res.Body()) == 0 && !c.RequestCtx().Hijacked() {
		deny(c, d)
	}
	return err
}

// decide also reports whether the route was asked for and there is none.
func (h *handler) decide(c fiber.Ctx) (_ *core.Decision, lost bool) {
	in := acquire(c, &h.routes, h.settings.of(c))
	ctx, room := h.newContext(in)
	h.limiter.DecideIn(&in.scratch, in, ctx, room)
	lost = in.asked && in.known && in.route == ""
	adapter.SetHeaders(&ctx.Decision, in.header(), &in.headers) // which copies what is in the room
	switch {
	case !h.config.NoContext || h.limiter.Reserved(&ctx.Decision):
		ctx = in.kept(ctx)
		ctx.Context = in.Context()
		c.SetContext(ctx)
		c.RequestCtx().SetUserValue(decisionLocal, ctx) // as c.Locals, which allocates in Fiber 3
	case ctx.Decision.Allowed:
		in.own = adapter.Context{}
		in.release()
		return allowed, lost
	default:
		ctx = in.kept(ctx)
	}
	in.release()
	return &ctx.Decision, lost
}

// allowed is the decision on all requests that are allowed, where nobody reads more of it.
var allowed = &core.Decision{Allowed: true}

// kept returns ctx, or a copy that outlives r.
func (r *request) kept(ctx *adapter.Context) *adapter.Context {
	if ctx != &r.own {
		return ctx
	}
	kept := new(adapter.Context)
	*kept, r.own = r.own, adapter.Context{}
	return kept
}

// newContext allocates the context of a decision, together with room for the results of several
// limits. With NoContext that of one limit is in's own.
func (h *handler) newContext(in *request) (*adapter.Context, []core.LimitResult) {
	if h.limiter.Limits() == 1 {
		if h.config.NoContext {
			return &in.own, nil
		}
		return new(adapter.Context), nil
	}
	many := new(struct {
		adapter.Context
		room [3]core.LimitResult
	})
	return &many.Context, many.room[:]
}
