package nethttp

import (
	"context"
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Config adapts a limiter to an application. Its zero value is ready to use.
type Config struct {
	// Skip reports whether a request passes without asking the limiter: it is not limited, not
	// charged, and not observed. Defaults to none.
	Skip func(*http.Request) bool

	// Denied answers a denied request: it sets status and body, and the usual status is
	// d.Status(). Before, the decision's headers are set, and headers that described the response
	// of the handler are removed. A body without a status is sent with d.Status(), and a Denied
	// that writes nothing is followed by [Deny]. Defaults to a body of type
	// application/problem+json.
	Denied func(w http.ResponseWriter, r *http.Request, d core.Decision)

	// Mux finds the route of a request before the request is served, if another handler stands
	// between the middleware and the mux. It is asked only if a limit or an observer needs the
	// route. Defaults to the handler that the middleware wraps, if that is a mux, otherwise
	// to the request's own Pattern, which is set inside a mux.
	Mux *http.ServeMux

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
func Limit(store core.Store, limits ...core.Limit) func(http.Handler) http.Handler {
	return New(core.ForLimits(store, limits))
}

// New returns middleware that asks limiter. It panics if limiter is nil or has a key or condition
// of another framework, or if there is more than one Config. One limiter may serve in several
// places.
func New(limiter *core.Limiter, config ...Config) func(http.Handler) http.Handler {
	c := adapter.One("nethttp.New", config)
	if limiter == nil {
		panic("weblimit: nethttp.New: the limiter is nil")
	}
	asked := adapter.New(limiter, "nethttp", "*http.Request")
	return func(next http.Handler) http.Handler {
		h := &handler{limiter: asked, config: c, next: next, mux: c.Mux}
		if h.mux == nil {
			h.mux = muxOf(next)
		}
		return h
	}
}

// Settings are what all limiters of an application share: store, bypasses, headers, denials.
// They are made by [With], and safe for concurrent use.
type Settings = adapter.SettingsOf[func(http.Handler) http.Handler, stdhttp.Allow]

// Guard asks limits within a handler, for what only the handler knows. Ask before the response begins:
//
//	perRecipient := limits.Guard(core.PerHour(20).Named("per-recipient"))
//	…
//	if !perRecipient.Allow(w, r, keyfuncs.Encode("to", message.To), 1) {
//		return
//	}
type Guard = adapter.GuardOf[stdhttp.Allow]

// With returns the settings for all limiters of an application, whether they are for all
// requests, a group or a route:
//
//	limits := nethttp.With(core.Config{Store: store, Bypass: bypass}, nethttp.Config{Denied: denied})
//	mux.Handle("POST /login", limits.Limit(login)(handler))
//	server.Handler = limits.Limit(perClient)(mux)
//
// A request that bypasses one of these limiters bypasses all of them, and all write the same
// headers. It panics if the configuration can never work, if it has Limits, which are those of
// Limit, or if there is more than one Config. So call it at start-up, not while serving.
func With(settings core.Config, config ...Config) *Settings {
	c := adapter.One("nethttp.With", config)
	return adapter.NewSettingsOf(settings, adapter.Functions[func(http.Handler) http.Handler, stdhttp.Allow]{
		Name: "nethttp", Enforce: func(l *core.Limiter) func(http.Handler) http.Handler { return New(l, c) }, Measure: measure, Allow: c.allow,
	})
}

// FromContext returns the decision on the request with this context, if there are several
// limiters that of the one nearest to the handler. It returns false if no limiter decided the
// request, or only limiters with [Config.NoContext].
func FromContext(ctx context.Context) (core.Decision, bool) { return core.FromContext(ctx) }

// Deny answers a denied request as the limiter does without [Config.Denied], for a Denied that
// also logs or counts. It sends status and problem body, in the language of Accept-Language if
// Config.Details of package core has it; the headers of the decision must be set already.
func Deny(w http.ResponseWriter, r *http.Request, d core.Decision) { stdhttp.Deny(w, r, &d) }

type handler struct {
	limiter *adapter.Limiter
	config  Config
	next    http.Handler
	mux     *http.ServeMux // nil if the handler is none and none was named
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.config.Skip != nil && h.config.Skip(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	d, r := h.decide(w, r)
	stdhttp.Answer(h.limiter, w, r, d, h.next, h.config.Denied)
}

func (h *handler) decide(w http.ResponseWriter, r *http.Request) (*core.Decision, *http.Request) {
	decide := stdhttp.Decide
	if h.config.NoContext {
		decide = stdhttp.DecideWithoutContext
	}
	if h.mux == nil {
		return decide(h.limiter, insideRequest{stdhttp.Of(r)}, r, w.Header())
	}
	in := outside.Get().(*outsideRequest)
	in.Request, in.http, in.mux = stdhttp.Of(r), r, h.mux
	d, r := decide(h.limiter, in, r, w.Header())
	*in = outsideRequest{}
	outside.Put(in)
	return d, r
}

// allow returns Allow of a guard.
func (config Config) allow(g *adapter.Guard) stdhttp.Allow {
	return stdhttp.AllowBy(func(r *http.Request, key string, cost int64) core.Decision {
		return g.Decide(insideRequest{stdhttp.Of(r)}, key, cost)
	}, config.Skip, config.Denied)
}

// measure returns middleware by which load measures the handlers behind it.
func measure(load *core.Load) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			stdhttp.Measure(load.Begin(stdhttp.Of(r)), w, r, next)
		})
	}
}
