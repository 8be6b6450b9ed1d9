package limittest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
)

// Build makes a server of an app, with the framework as its users find it: its
// default engine, and no trusted proxies configured. A limit that can't work
// panics in here, not later.
type Build func(tb testing.TB, app App) Server

// Server is an app that was built.
type Server interface {
	// Do answers a request without a network. The peer is r.RemoteAddr, and the
	// context r's as far as the framework knows one. The response's body can be
	// read to its end.
	Do(r *http.Request) *http.Response

	// Listen serves on a port of the loopback interface until the test ends, and
	// returns the base URL, "http://127.0.0.1:1234". It accepts headers of 2 MB.
	Listen(tb testing.TB) string
}

// Differences are where a framework can't do as the others, or will not. Scenarios
// then check what it does instead: none is left out. The zero value is for a
// framework that has none.
type Differences struct {
	// RoutesInFront: a limiter of App.Front knows the route of a request, as one of
	// App.Layers does.
	RoutesInFront bool

	// RefusesMethods: requests with methods that the framework does not know get
	// 400 from it, before any middleware.
	RefusesMethods bool

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

	// SignIn, before all limiters, takes a user from the request header [UserHeader]
	// if there is one, and stores its value.
	SignIn SignIn

	// Front are limiters as far out as the framework's users put one, where it may
	// not have routed yet: around a mux that something else stands in front of,
	// around chi's router, in Echo's Pre. They have no Skip and no Denied.
	Front []Layer

	// Layers are limiters around the whole application, from the outside in; they
	// see requests that match no route as well.
	Layers []Layer

	// Routes are all there is; other requests are answered as the framework does.
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

// What SignIn goes by.
const (
	UserHeader = "X-Test-User"
	UserLocal  = "test-user"
)

// DeadlineHeader is a request header that has the outermost middleware end the
// request's context after so long: "5ms".
const DeadlineHeader = "X-Test-Deadline"

// Deadline does so for a request of net/http.
func Deadline(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := WithDeadline(r.Context(), r.Header.Get(DeadlineHeader))
	if ctx == r.Context() {
		return r, cancel
	}
	return r.WithContext(ctx), cancel
}

// WithDeadline does so for a context and the header's value.
func WithDeadline(ctx context.Context, header string) (context.Context, context.CancelFunc) {
	if after, err := time.ParseDuration(header); err == nil {
		return context.WithTimeout(ctx, after)
	}
	return ctx, func() {}
}

// UserKey is the key of the user in the context.
type UserKey struct{}

// Layer is one limiter as middleware: Limit(Store, Limits...) if Store is set,
// else New(Limiter), with a Config if Skip or Denied is set. If Load is set it is
// Measure(Load) and no limiter.
type Layer struct {
	Load *core.Load

	Store  core.Store
	Limits []core.Limit

	Limiter *core.Limiter

	// Skip is Config.Skip; header reads the request's.
	Skip func(header func(name string) string) bool

	// Denied is Config.Denied: answer with this status and body, as text/plain.
	Denied func(d core.Decision) (status int, body string)
}

// Route is a method and path with its handler.
type Route struct {
	Method string  // "" for all methods
	Path   string  // segments in braces are parameters: "/items/{id}"
	Layers []Layer // limiters of this route alone, from the outside in
	Handle func(Call)
}

// Call is what a handler sees of a request. It makes one reply.
type Call interface {
	// Context is the request's context, as a handler hands it to a database.
	Context() context.Context

	// Decision is the adapter's FromContext.
	Decision() (core.Decision, bool)

	// Header is a header of the request.
	Header(name string) string

	// Body reads the request's body to its end.
	Body() ([]byte, error)

	// Charge is the adapter's Charge.
	Charge(n int64) error

	// Fail ends the handler with an error, as the framework has it: its own with a
	// status, or any other, which is a 500. Where handlers return none it replies.
	Fail(status int, own bool)

	// Hijack takes the connection over, answers 200 on it, and closes it.
	Hijack()

	// Proxy hands the request to a backend, by the reverse proxy that applications
	// of the framework use.
	Proxy(backend string)

	// Reply sends a status and a body as text/plain.
	Reply(status int, body string)

	// Stream sends 200 and each chunk at once, until there are no more.
	Stream(next func() (chunk string, more bool))
}
