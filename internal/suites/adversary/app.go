package adversary

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/suites/frameworks"
)

// Framework is a framework with an application, and its dialect of HTTP/1.1.
type Framework struct {
	Name    string
	Dialect *Dialect
	HTTP2   bool // it speaks HTTP/2, too

	// Serve serves an application behind a limiter until the listener closes.
	// onRoute puts the limiter on each route, because elsewhere Fiber does not know it.
	Serve func(ln net.Listener, limiter *core.Limiter, onRoute, http2 bool)
}

// The application's routes answer all methods. What they do is in their names.
const (
	routeOK     = "/ok"
	routeItem   = "/items/{id}"
	routeAs     = "/as/{user}" // for a signed-in user; authentication reads the path
	routeRead   = "/read"      // reads the body; other routes do not
	routeFail   = "/fail"      // 500
	routePanic  = "/panic"
	routeStream = "/stream"     // aborts when the client is gone, as a reverse proxy does
	routeWait   = "/gone"       // 502 once the client is gone, as a reverse proxy does
	routeCharge = "/charge/{n}" // reports a cost of n
	routeBroken = "/broken/{n}" // reports a cost of n, then fails
	routeNone   = ""            // none of them
)

// Routes are the templates of all routes.
var Routes = []string{routeOK, routeItem, routeAs, routeRead, routeFail, routePanic, routeStream, routeWait, routeCharge, routeBroken}

// UserKey is the key of the signed-in user, in the context and in the framework's locals.
const UserKey = "user"

// SignedIn is the application's authentication. It reads the target as it was sent, so the
// attacks of this package cannot change it.
func SignedIn(target string) (user string, ok bool) {
	path, _, _ := strings.Cut(target, "?")
	user, ok = strings.CutPrefix(path, "/as/")
	if !ok || user == "" || strings.Trim(user, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", false
	}
	return user, true
}

// ContextKey is the type of keys in the context.
type ContextKey string

// Std builds the application on a framework over net/http.
func Std(f frameworks.Framework) func(*core.Limiter) http.Handler {
	return func(limiter *core.Limiter) http.Handler {
		app := f.New()
		user := app.Local(UserKey, func(r *http.Request) any { return r.Context().Value(ContextKey(UserKey)) })
		app.Use(app.Recover(), user, app.Limiter(limiter))
		for _, route := range Routes {
			app.Handle("", route, func(w http.ResponseWriter, r *http.Request) error {
				return Handle(w, r, route, r.PathValue("n"))
			})
		}
		return app.(http.Handler)
	}
}

// ServeStd serves on net/http. build returns the application behind its framework.
func ServeStd(build func(*core.Limiter) http.Handler) func(net.Listener, *core.Limiter, bool, bool) {
	return func(ln net.Listener, limiter *core.Limiter, _, http2 bool) {
		app := build(limiter)
		server := &http.Server{ //nolint:gosec // G112: connections are in memory, and have an end
			ErrorLog: log.New(io.Discard, "", 0),
			ConnContext: func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(ctx, ContextKey("wire"), c)
			},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				client := r.Context().Value(ContextKey("wire")).(*wire)
				v := &Visit{method: r.Method, target: r.RequestURI}
				if !client.enter(v) {
					panic(http.ErrAbortHandler)
				}
				defer client.leaveHandler()
				settle(limiter)
				ctx := visiting(r.Context(), v)
				if user, ok := SignedIn(r.RequestURI); ok {
					ctx = context.WithValue(ctx, ContextKey(UserKey), user)
				}
				app.ServeHTTP(&statusWriter{ResponseWriter: w, visit: v}, r.WithContext(ctx))
			}),
		}
		if http2 {
			server.Protocols = new(http.Protocols)
			server.Protocols.SetUnencryptedHTTP2(true)
		}
		_ = server.Serve(ln) // until it closes
	}
}

// settle waits until earlier requests are settled, so that the next result does not depend
// on timing.
func settle(limiter *core.Limiter) { _ = limiter.Drain(context.Background()) }

// statusWriter records the status, as access logs do.
type statusWriter struct {
	http.ResponseWriter
	visit *Visit
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) WriteHeader(code int) {
	if w.visit.status == 0 {
		w.visit.status = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.visit.status == 0 {
		w.visit.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

func (w *statusWriter) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// errFailed is the error of a handler that must fail in its framework's way.
var errFailed = errors.New("the handler fails")

// Handle is the handler of all routes over net/http. Each framework reports its error in its own way.
func Handle(w http.ResponseWriter, r *http.Request, route, n string) error {
	v := r.Context().Value(visitKey{}).(*Visit)
	v.ran++
	v.route = route
	v.decided, _ = core.FromContext(r.Context())
	switch route {
	case routeRead:
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return nil
		}
	case routeFail:
		return errFailed
	case routePanic:
		panic(errFailed)
	case routeStream:
		for range 3 {
			if _, err := w.Write(page); err != nil {
				panic(http.ErrAbortHandler)
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
		return nil
	case routeWait:
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			break
		}
		select {
		case <-r.Context().Done():
			v.left = true
			w.WriteHeader(http.StatusBadGateway)
			return nil
		case <-time.After(patience):
		}
	case routeCharge:
		v.units = units(n)
		_ = core.Spend(r.Context(), v.units)
	case routeBroken:
		v.units = units(n)
		_ = core.Spend(r.Context(), v.units)
		return errFailed
	}
	_, _ = io.WriteString(w, "ok")
	return nil
}

// page is one of the three chunks of a stream.
var page = []byte(strings.Repeat("0123456789abcde\n", 64))

// patience is how long a handler waits for its client to leave.
const patience = time.Millisecond

// units reads the cost in a path.
func units(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 8)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Colons writes a route's parameters as Gin, Echo and Fiber do.
var Colons = strings.NewReplacer("{", ":", "}", "")

// Enter is called for each request by an application that is not over net/http, before the
// limiter. It reports false if the connection has already been judged without the request. The
// caller calls leave when it has answered.
func Enter(conn net.Conn, limiter *core.Limiter, method, target string) (v *Visit, leave func(), ok bool) {
	client := conn.(*wire)
	v = &Visit{method: method, target: target}
	if !client.enter(v) {
		return nil, nil, false
	}
	settle(limiter)
	return v, client.leaveHandler, true
}

// Context returns a context by which the store knows the request.
func (v *Visit) Context() context.Context { return visiting(context.Background(), v) }

// Answered notes the status of the answer.
func (v *Visit) Answered(status int) { v.status = status }

// Fast is Handle for Fiber, which has read the body already, and notices that a client is gone only
// when it sends the answer. n is the parameter of that name.
func (v *Visit) Fast(route, n string, d core.Decision, charge func(int64) error, w io.Writer) error {
	v.ran++
	v.route = route
	v.decided = d
	switch route {
	case routeFail:
		return errFailed
	case routePanic:
		panic(errFailed)
	case routeStream:
		for range 3 {
			_, _ = w.Write(page)
		}
		return nil
	case routeCharge, routeBroken:
		v.units = units(n)
		_ = charge(v.units)
	}
	if route == routeBroken {
		return errFailed
	}
	_, _ = io.WriteString(w, "ok")
	return nil
}
