package limittest

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Serve makes a server of an http.Handler.
func Serve(h http.Handler) Server { return stdServer{h} }

type stdServer struct{ http.Handler }

func (s stdServer) Do(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func (s stdServer) Listen(tb testing.TB) string {
	tb.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(tb)
	server := &http.Server{Handler: s, MaxHeaderBytes: 4 << 20, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // until Close
	}()
	tb.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return "http://" + l.Addr().String()
}

// SetOuter sets the headers of [App.Outer] on a response.
func SetOuter(to, outer http.Header) {
	for name, values := range outer {
		to[name] = append([]string(nil), values...)
	}
}

// HTTPCall is a [Call] over net/http.
type HTTPCall struct {
	Writer       http.ResponseWriter
	Request      *http.Request
	FromContext  func() (core.Decision, bool) // the adapter's
	ReturnsError func(error)                  // set if handlers return errors
	StatusError  func(status int) error       // the framework's own
	AskGuard     func(guard any, key string, cost int64) bool
}

// Context implements [Call], as do the others.
func (c HTTPCall) Context() context.Context { return c.Request.Context() }

// Header returns a request header.
func (c HTTPCall) Header(name string) string { return c.Request.Header.Get(name) }

// Body reads the request body.
func (c HTTPCall) Body() ([]byte, error) { return io.ReadAll(c.Request.Body) }

// Decision calls FromContext.
func (c HTTPCall) Decision() (core.Decision, bool) { return c.FromContext() }

// Spend is core.Spend.
func (c HTTPCall) Spend(n int64, limits ...string) error {
	return core.Spend(c.Request.Context(), n, limits...)
}

// Ask calls AskGuard.
func (c HTTPCall) Ask(guard any, key string, cost int64) bool { return c.AskGuard(guard, key, cost) }

// Deface changes the values and the room behind them.
func (c HTTPCall) Deface(name string) {
	h := c.Writer.Header()
	for i, all := 0, h[name][:cap(h[name])]; i < len(all); i++ {
		all[i] = "defaced"
	}
	h[name] = append(h[name], "appended")
}

// Proxy is an httputil.ReverseProxy that flushes at once.
func (c HTTPCall) Proxy(backend string) {
	to, err := url.Parse(backend)
	if err != nil {
		panic(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ServeHTTP(c.Writer, c.Request)
}

// Reply sends a status and a body.
func (c HTTPCall) Reply(status int, body string) { Reply(c.Writer, status, body) }

// Fail returns an error if the framework's handlers can, and replies otherwise.
func (c HTTPCall) Fail(status int, own bool) {
	switch {
	case c.ReturnsError == nil:
		http.Error(c.Writer, "failed", status)
	case own:
		c.ReturnsError(c.StatusError(status))
	default:
		c.ReturnsError(errors.New("failed"))
	}
}

// Hijack fails the test if the writer cannot be hijacked.
func (c HTTPCall) Hijack() {
	conn, rw, err := http.NewResponseController(c.Writer).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = rw.WriteString(HijackedResponse)
	_ = rw.Flush()
	_ = conn.Close()
}

// HijackedResponse is the response that [Call.Hijack] sends.
const HijackedResponse = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8\r\n\r\nhijacked"

// Stream flushes each chunk.
func (c HTTPCall) Stream(next func() (string, bool)) {
	for chunk, more := next(); more; chunk, more = next() {
		_, _ = io.WriteString(c.Writer, chunk)
		c.Writer.(http.Flusher).Flush()
	}
}

// Reply sends a text over net/http.
func Reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
