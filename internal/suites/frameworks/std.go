package frameworks

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/nethttp"
)

// Std is an application over net/http: it has the methods of App that need no more than a handler.
type Std struct {
	http.Handler
	server http.Server
}

// Do implements App.
func (s *Std) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// Serve implements App.
func (s *Std) Serve(l net.Listener) error {
	s.server.Handler, s.server.ReadHeaderTimeout = s, time.Minute
	s.server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	return s.server.Serve(l)
}

// Shutdown implements App.
func (s *Std) Shutdown() { _ = s.server.Close() }

// plain is what applications of plain handlers have in common.
type plain struct{ Std }

type around = func(http.Handler) http.Handler

func same(next http.Handler) http.Handler { return next }

func (*plain) Local(string, func(*http.Request) any) any { return same }
func (*plain) Recover() any                              { return same }

func (h Handler) plain(w http.ResponseWriter, r *http.Request) {
	if h(w, r) != nil {
		http.Error(w, "failed", http.StatusInternalServerError)
	}
}

// mux is an application of net/http alone.
type mux struct {
	plain
	mux   *http.ServeMux
	outer []any
}

func newMux() App {
	m := &mux{mux: http.NewServeMux()}
	wrapped := sync.OnceValue(func() http.Handler { return wrap(m.mux, m.outer) }) // when all is added
	m.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { wrapped().ServeHTTP(w, r) })
	return m
}

func wrap(h http.Handler, middleware []any) http.Handler {
	for i := len(middleware) - 1; i >= 0; i-- {
		h = middleware[i].(around)(h)
	}
	return h
}

func (m *mux) Use(middleware ...any)       { m.outer = append(m.outer, middleware...) }
func (m *mux) Limiter(l *core.Limiter) any { return nethttp.New(l, nethttp.Config{Mux: m.mux}) }

func (m *mux) Handle(method, path string, h Handler, middleware ...any) {
	m.mux.Handle(strings.TrimPrefix(method+" "+path, " "), wrap(http.HandlerFunc(h.plain), middleware))
}

// router is an application on chi.
type router struct {
	plain
	mux *chi.Mux
}

func newChi() App {
	r := &router{mux: chi.NewRouter()}
	r.Handler = r.mux
	return r
}

func (r *router) Limiter(l *core.Limiter) any { return chilimit.New(l) }

func (r *router) Use(middleware ...any) {
	for _, m := range middleware {
		r.mux.Use(m.(around))
	}
}

func (r *router) Handle(method, path string, h Handler, middleware ...any) {
	handler := wrap(http.HandlerFunc(h.plain), middleware)
	if method == "" {
		r.mux.Handle(path, handler)
	} else {
		r.mux.Method(method, path, handler)
	}
}

// Colons writes parameters as Gin, Echo and Fiber do.
var Colons = strings.NewReplacer("{", ":", "}", "")

// engine is an application on Gin.
type engine struct {
	Std
	gin *gin.Engine
}

func init() { gin.SetMode(gin.ReleaseMode) } // for the process: tests run beside each other

func newGin() App {
	e := &engine{gin: gin.New()}
	e.Handler = e.gin
	return e
}

func (e *engine) Limiter(l *core.Limiter) any { return ginlimit.New(l) }
func (e *engine) Recover() any                { return gin.RecoveryWithWriter(io.Discard) }
func (e *engine) Use(middleware ...any)       { e.gin.Use(Each[gin.HandlerFunc](middleware)...) }

func (e *engine) Local(name string, value func(*http.Request) any) any {
	return gin.HandlerFunc(func(c *gin.Context) { c.Set(name, value(c.Request)) })
}

func (e *engine) Handle(method, path string, h Handler, middleware ...any) {
	chain := append(Each[gin.HandlerFunc](middleware), func(c *gin.Context) {
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		if err := h(c.Writer, c.Request); err != nil {
			_ = c.AbortWithError(http.StatusInternalServerError, err)
		}
	})
	if method == "" {
		e.gin.Any(Colons.Replace(path), chain...)
	} else {
		e.gin.Handle(method, Colons.Replace(path), chain...)
	}
}

// Each returns middleware as that of one framework.
func Each[M any](middleware []any) []M {
	var all []M
	for _, m := range middleware {
		all = append(all, m.(M))
	}
	return all
}
