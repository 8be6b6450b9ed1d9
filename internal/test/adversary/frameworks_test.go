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

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/nethttp"
)

// framework is one of the five frameworks and its dialect of HTTP/1.1.
type framework struct {
	name    string
	dialect *dialect
	// serve serves an application behind a limiter until the listener closes.
	// onRoute puts the limiter on each route, because elsewhere Fiber does not know it.
	serve func(ln net.Listener, limiter *core.Limiter, onRoute, http2 bool)
}

var frameworks = []*framework{
	{"net/http", overNetHTTP("net/http"), serveStd(netHTTP)},
	{"chi", overNetHTTP("chi"), serveStd(chiRouter)},
	{"gin", overNetHTTP("gin"), serveStd(ginEngine)},
	{"echo", overNetHTTP("echo"), serveStd(echoServer)},
	{"fiber", overFastHTTP(), serveFiber},
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

var routes = []string{routeOK, routeItem, routeAs, routeRead, routeFail, routePanic, routeStream, routeWait, routeCharge, routeBroken}

// userKey is the context key of the signed-in user.
const userKey = "user"

// signedIn is the application's authentication. It reads the target as it was sent, so the
// attacks of this package cannot change it.
func signedIn(target string) (user string, ok bool) {
	path, _, _ := strings.Cut(target, "?")
	user, ok = strings.CutPrefix(path, "/as/")
	if !ok || user == "" || strings.Trim(user, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", false
	}
	return user, true
}

type contextKey string

// serveStd serves on net/http. build returns the application behind its framework.
func serveStd(build func(*core.Limiter) http.Handler) func(net.Listener, *core.Limiter, bool, bool) {
	return func(ln net.Listener, limiter *core.Limiter, _, http2 bool) {
		app := build(limiter)
		server := &http.Server{ //nolint:gosec // G112: connections are in memory, and have an end
			ErrorLog: log.New(io.Discard, "", 0),
			ConnContext: func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(ctx, contextKey("wire"), c)
			},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				client := r.Context().Value(contextKey("wire")).(*wire)
				v := &visit{method: r.Method, target: r.RequestURI}
				if !client.enter(v) {
					panic(http.ErrAbortHandler)
				}
				defer client.leaveHandler()
				settle(limiter)
				ctx := visiting(r.Context(), v)
				if user, ok := signedIn(r.RequestURI); ok {
					ctx = context.WithValue(ctx, contextKey(userKey), user)
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
	visit *visit
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

// handle is the handler of all routes. Each framework reports its error in its own way.
func handle(w http.ResponseWriter, r *http.Request, route, n string) error {
	v := r.Context().Value(visitKey{}).(*visit)
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
		_ = core.Charge(r.Context(), v.units)
	case routeBroken:
		v.units = units(n)
		_ = core.Charge(r.Context(), v.units)
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

func netHTTP(limiter *core.Limiter) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			if handle(w, r, route, r.PathValue("n")) != nil {
				http.Error(w, "failed", http.StatusInternalServerError)
			}
		})
	}
	return nethttp.New(limiter, nethttp.Config{Mux: mux})(mux)
}

func chiRouter(limiter *core.Limiter) http.Handler {
	mux := chi.NewRouter()
	mux.Use(chilimit.New(limiter))
	for _, route := range routes {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			if handle(w, r, route, chi.URLParam(r, "n")) != nil {
				http.Error(w, "failed", http.StatusInternalServerError)
			}
		})
	}
	return mux
}

// colons writes a route's parameters as Gin, Echo and Fiber do.
var colons = strings.NewReplacer("{", ":", "}", "")

func ginEngine(limiter *core.Limiter) http.Handler {
	engine := gin.New()
	engine.Use(gin.RecoveryWithWriter(io.Discard), func(c *gin.Context) {
		if user, ok := c.Request.Context().Value(contextKey(userKey)).(string); ok {
			c.Set(userKey, user)
		}
	}, ginlimit.New(limiter))
	for _, route := range routes {
		engine.Any(colons.Replace(route), func(c *gin.Context) {
			if err := handle(c.Writer, c.Request, route, c.Param("n")); err != nil {
				_ = c.AbortWithError(http.StatusInternalServerError, err)
			}
		})
	}
	return engine
}

func echoServer(limiter *core.Limiter) http.Handler {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{DisableStackAll: true, DisablePrintStack: true}), func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set(userKey, c.Request().Context().Value(contextKey(userKey)))
			return next(c)
		}
	}, echolimit.New(limiter))
	for _, route := range routes {
		e.Any(colons.Replace(route), func(c echo.Context) error {
			return handle(c.Response(), c.Request(), route, c.Param("n"))
		})
	}
	return e
}

func serveFiber(ln net.Listener, limiter *core.Limiter, onRoute, _ bool) {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(func(c *fiber.Ctx) error {
		client := c.Context().Conn().(*wire)
		v := &visit{method: string(c.Request().Header.Method()), target: string(c.Request().Header.RequestURI())}
		if !client.enter(v) {
			return fiber.ErrServiceUnavailable
		}
		defer client.leaveHandler()
		settle(limiter)
		c.SetUserContext(visiting(context.Background(), v))
		c.Locals(visitKey{}, v)
		if user, ok := signedIn(v.target); ok {
			c.Locals(userKey, user)
		}
		err := c.Next()
		v.status = c.Response().StatusCode()
		var own *fiber.Error
		switch {
		case errors.As(err, &own):
			v.status = own.Code
		case err != nil:
			v.status = http.StatusInternalServerError
		}
		return err
	}, recover.New())
	limit := fiberlimit.New(limiter)
	if !onRoute {
		app.Use(limit)
	}
	for _, route := range routes {
		handlers := []fiber.Handler{func(c *fiber.Ctx) error { return handleFiber(c, route) }}
		if onRoute {
			handlers = []fiber.Handler{limit, handlers[0]}
		}
		app.All(colons.Replace(route), handlers...)
	}
	_ = app.Listener(ln) // until it closes
}

// handleFiber is handle for Fiber. Fiber has read the body already, and notices that a
// client is gone only when it sends the answer.
func handleFiber(c *fiber.Ctx, route string) error {
	v := c.Locals(visitKey{}).(*visit)
	v.ran++
	v.route = route
	v.decided, _ = fiberlimit.FromContext(c)
	switch route {
	case routeFail:
		return errFailed
	case routePanic:
		panic(errFailed)
	case routeStream:
		for range 3 {
			_, _ = c.Write(page)
		}
		return nil
	case routeCharge:
		v.units = units(c.Params("n"))
		_ = fiberlimit.Charge(c, v.units)
	case routeBroken:
		v.units = units(c.Params("n"))
		_ = fiberlimit.Charge(c, v.units)
		return errFailed
	}
	return c.SendString("ok")
}
