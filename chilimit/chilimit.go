package chilimit

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

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
	if limiter == nil {
		panic("weblimit: chilimit.New: the limiter is nil")
	}
	if len(config) > 1 {
		panic("weblimit: chilimit.New: more than one Config")
	}
	var c Config
	if len(config) == 1 {
		c = config[0]
	}
	asked := adapter.New(limiter, "chi", "*http.Request")
	return func(next http.Handler) http.Handler {
		return &handler{limiter: asked, config: c, next: next, inner: routerOf(next)}
	}
}

// FromContext returns the decision on the request with this context, if there are several
// limiters that of the one nearest to the handler. It returns false if no limiter decided the
// request, or only limiters with [Config.NoContext].
func FromContext(ctx context.Context) (core.Decision, bool) { return core.FromContext(ctx) }

// Spend adds n units to the real cost of the request with this context, for all limits with an
// estimate or for those named; see [core.Spend].
func Spend(ctx context.Context, n int64, limits ...string) error {
	return core.Spend(ctx, n, limits...)
}

// Deny answers a denied request as the limiter does without [Config.Denied], for a Denied that
// also logs or counts. It sends status and problem body, in the language of Accept-Language if
// Config.Details of package core has it; the headers of the decision must be set already.
func Deny(w http.ResponseWriter, r *http.Request, d core.Decision) { stdhttp.Deny(w, r, &d) }

// routerOf returns the router that a handler is, perhaps with other limiters around it, or nil.
func routerOf(h http.Handler) *chi.Mux {
	switch h := h.(type) {
	case *chi.Mux:
		return h
	case *handler:
		return h.inner
	}
	return nil
}

type handler struct {
	limiter *adapter.Limiter
	config  Config
	next    http.Handler
	inner   *chi.Mux // that the middleware is around, if any
	mounts  mounts
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.config.Skip != nil && h.config.Skip(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	d, r, lost := h.decide(w, r)
	stdhttp.Answer(h.limiter, w, r, d, h.next, h.config.Denied)
	if lost {
		h.mounts.learn(chi.RouteContext(r.Context()))
	}
}

// decide also reports whether the route was asked for and there is none.
func (h *handler) decide(w http.ResponseWriter, r *http.Request) (_ *core.Decision, _ *http.Request, lost bool) {
	in := requests.Get().(*request)
	in.Request, in.http, in.mounts, in.inner = stdhttp.Of(r), r, &h.mounts, h.inner
	d, r := in.memory.Decide(h.limiter, in, r, w.Header(), h.config.NoContext)
	lost = in.asked && in.found.known && in.found.route == ""
	in.release()
	return d, r, lost
}
