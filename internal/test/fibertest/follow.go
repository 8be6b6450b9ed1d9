package fibertest

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// following serves an app whose limiter comes first, and returns its outcomes.
func (s suite[C]) following(t *testing.T, options Options[C], handlers ...func(C) error) (address string, outcomes <-chan core.Outcome) {
	t.Helper()
	seen := make(chan core.Outcome, 9)
	app := s.f.App(options)
	app.Use("", s.f.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
		seen <- o
		return false
	})))
	app.Add("", "/", handlers...)
	return listen(t, app), seen
}

// Time-out middleware behind the limiter gives the handler a context that ends when
// it returns. Nobody canceled the request for that.
func (s suite[C]) innerContext(t *testing.T) {
	t.Parallel()
	address, outcomes := s.following(t, Options[C]{}, func(c C) error {
		ctx, cancel := context.WithCancel(s.f.Context(c))
		defer cancel()
		s.f.SetContext(ctx, c)
		return c.Next()
	}, hello[C])
	_ = must.Get(http.Get("http://" + address))(t).Body.Close()
	if o := <-outcomes; o.Status != 200 || o.Canceled || o.TimedOut {
		t.Errorf("%+v", o)
	}
}

// Where the handler reads the body from the client, the client makes it fail
// by breaking off. fasthttp does not tell: c.Body() returns the error as if it were
// the body.
func (s suite[C]) brokenStream(t *testing.T) {
	t.Parallel()
	address, outcomes := s.following(t, Options[C]{StreamRequestBody: true, BodyLimit: 8}, func(c C) error {
		if string(c.Body()) != "all of the body" {
			return c.SendStatus(http.StatusInternalServerError)
		}
		return c.SendString("read")
	})
	for request, canceled := range map[string]bool{
		"Content-Length: 15\r\n\r\nall of the b":                   true, // more than BodyLimit: new releases refuse less, before any handler
		"Content-Length: 15\r\n\r\nall of the body":                false,
		"Transfer-Encoding: chunked\r\n\r\nf\r\nall of":            true,
		"Content-Length: 0\r\n\r\n":                                false, // the handler's own failure
		"Transfer-Encoding: chunked\r\n\r\nf\r\nall of\r\n0\r\n\r": true,
	} {
		conn := must.Get(net.Dial("tcp", address))(t)
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"+request)
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		_ = conn.Close()
		if o := <-outcomes; o.Canceled != canceled || core.ServerErrors(o) != (!canceled && o.Status >= 500) {
			t.Errorf("%q: %+v, answered %q", request, o, strings.SplitN(string(answer), "\r\n", 2)[0])
		}
	}
}
