package limittest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
)

// Build makes a server of an app with the framework's default engine and no trusted
// proxies. A limit that cannot work must panic in Build, not later.
type Build func(tb testing.TB, app App) Server

// Server is an app that was built.
type Server interface {
	// Do answers a request without a network. The peer is r.RemoteAddr. The context is
	// that of r if the framework has contexts. The response's body can be read to its end.
	Do(r *http.Request) *http.Response

	// Listen serves on a port of the loopback interface until the test ends, and
	// returns the base URL, "http://127.0.0.1:1234".
	Listen(tb testing.TB) string
}

// Differences say where a framework cannot do what the others do. No scenario is left
// out: it checks what the framework does instead. The zero value means no difference.
type Differences struct {
	// HidesRoutes: requests of the suite's app do not show the routes of their router.
	HidesRoutes bool

	// RoutesInFront: a limiter in App.Front knows the route of a request.
	RoutesInFront bool

	// RefusesMethods is the status with which the framework answers unknown methods before any
	// middleware runs, or 0 if it does not.
	RefusesMethods int

	// RunsUnread: middleware also runs, and a limiter charges, for a request that the framework
	// cannot read to its end, and answers without the handler. Such is one with a trailer field
	// that is forbidden.
	RunsUnread bool

	// Fasthttp: the framework stands on fasthttp, whose newer releases refuse some trailer fields, so that no
	// handler runs. Which release it is depends on the other modules of a build.
	Fasthttp bool

	// OnlyHTTP1: the framework has no HTTP/2.
	OnlyHTTP1 bool

	// Blind: a handler is not told that its client has hung up.
	Blind bool
}

// App is a web application. A request passes its fields in their order, after a
// middleware that answers panics with 500.
type App struct {
	// Outer are response headers that a middleware sets before all limiters.
	Outer http.Header

	// SignIn says where a middleware before all limiters stores the value of the request
	// header [UserHeader], if the request has it.
	SignIn SignIn

	// LargeHeaders: requests may have headers of 2 MB, for which some servers need large buffers.
	LargeHeaders bool

	// Front are limiters that may run before routing: around a mux behind another
	// handler, around chi's router, in Echo's Pre. They have no Skip and no Denied.
	Front []Layer

	// Layers are limiters around the whole application, from the outside in. They also
	// see requests that match no route.
	Layers []Layer

	// Routes are all routes. The framework answers other requests by itself.
	Routes []Route
}

// SignIn is where authentication stores the user.
type SignIn int

// Where users are stored.
const (
	NoSignIn SignIn = iota
	// InContext stores under [UserKey] in the request's context.
	InContext
	// InLocals stores under [UserLocal] in the framework's own locals, or in the
	// request's context where the framework has none.
	InLocals
)

// The header that SignIn reads and the local that it sets.
const (
	UserHeader = "X-Test-User"
	UserLocal  = "test-user"
)

// DeadlineHeader is a request header such as "5ms". The outermost middleware ends the
// request's context after that time.
const DeadlineHeader = "X-Test-Deadline"

// Deadline applies [DeadlineHeader] to an http.Request.
func Deadline(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := WithDeadline(r.Context(), r.Header.Get(DeadlineHeader))
	if ctx == r.Context() {
		return r, cancel
	}
	return r.WithContext(ctx), cancel
}

// WithDeadline applies the value of [DeadlineHeader] to a context.
func WithDeadline(ctx context.Context, header string) (context.Context, context.CancelFunc) {
	if after, err := time.ParseDuration(header); err == nil {
		return context.WithTimeout(ctx, after)
	}
	return ctx, func() {}
}

// UserKey is the key of the user in the context.
type UserKey struct{}

// Layer is one middleware. It is Measure(Load) if Load is set, Limit(Store, Limits...) if
// Store is set, With.Policy(Policies, "live") if that is set, With.Limit(Limits...) if With is set, and New(Limiter) otherwise, with a Config
// if Skip or Denied is set.
type Layer struct {
	Load *core.Load

	With     *Settings
	Policies core.Policies

	Store  core.Store
	Limits []core.Limit

	Limiter *core.Limiter

	// Skip is Config.Skip. header returns a request header.
	Skip func(header func(name string) string) bool

	NoContext bool // Config.NoContext

	// Denied is Config.Denied. It returns the status and the text/plain body of the answer. Without
	// a status it writes the body alone, and without both nothing.
	Denied func(d core.Decision) (status int, body string)

	// Log makes Config.Denied a function that calls it and then the adapter's Deny.
	Log func(d core.Decision)
}

// Settings is a value of the adapter's With, of which all layers that name it are made.
type Settings struct {
	core.Config
	Layer Layer // its Skip and Denied

	made any
}

// Made returns what with returns, which is called once.
func (s *Settings) Made(with func() any) any {
	if s.made == nil {
		s.made = with()
	}
	return s.made
}

// Route is a method and path with its handler.
type Route struct {
	Method string  // "" for all methods
	Path   string  // segments in braces are parameters: "/items/{id}"
	Layers []Layer // limiters of this route alone, from the outside in
	Handle func(Call)
}

// Call is a request as its handler sees it. The handler makes one reply.
type Call interface {
	// Context is the request's context, which a handler would hand to a database.
	Context() context.Context

	// Decision is the adapter's FromContext.
	Decision() (core.Decision, bool)

	// Header is a header of the request.
	Header(name string) string

	// Body reads the request's body to its end.
	Body() ([]byte, error)

	// Spend is core.Spend for the request.
	Spend(n int64, limits ...string) error

	// Fail ends the handler with an error: the framework's own with a status, or any
	// other, which means 500. If the framework's handlers return no error it replies.
	Fail(status int, own bool)

	// Deface overwrites what a header of the response has, in place, and appends to it.
	Deface(name string)

	// Hijack takes the connection over, answers 200 on it, and closes it.
	Hijack()

	// Proxy forwards the request to a backend with the usual reverse proxy of the
	// framework.
	Proxy(backend string)

	// Reply sends a status and a body as text/plain.
	Reply(status int, body string)

	// Stream sends 200, then flushes each chunk as it comes.
	Stream(next func() (chunk string, more bool))
}
