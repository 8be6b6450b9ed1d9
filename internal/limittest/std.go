package limittest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
)

// Serve makes a server of a handler of net/http.
func Serve(h http.Handler) Server { return stdServer{h} }

type stdServer struct{ http.Handler }

func (s stdServer) Do(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func (s stdServer) Listen(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := &http.Server{Handler: s, MaxHeaderBytes: 4 << 20, ReadHeaderTimeout: time.Minute}
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

// HTTPCall is a [Call] over net/http; decision is the adapter's FromContext.
func HTTPCall(w http.ResponseWriter, r *http.Request, decision func() (core.Decision, bool)) Call {
	return httpCall{w, r, decision}
}

type httpCall struct {
	w        http.ResponseWriter
	r        *http.Request
	decision func() (core.Decision, bool)
}

func (c httpCall) Context() context.Context        { return c.r.Context() }
func (c httpCall) Decision() (core.Decision, bool) { return c.decision() }
func (c httpCall) Reply(status int, body string)   { Reply(c.w, status, body) }

func (c httpCall) Stream(next func() (string, bool)) {
	for chunk, more := next(); more; chunk, more = next() {
		_, _ = io.WriteString(c.w, chunk)
		c.w.(http.Flusher).Flush()
	}
}

// Reply sends a text over net/http.
func Reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
