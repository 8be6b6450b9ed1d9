package fibertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Run runs everything. It must not be parallel: some tests count allocations or set variables.
func Run[C Ctx[C]](t *testing.T, f Framework[C]) {
	s := suite[C]{f: f}
	s.fasthttp = s.releaseOfFasthttp(t)
	for _, tt := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"locals come before the context", s.locals},
		{"the decision outlives the user context", s.replacedContext},
		{"the error handler does not see a denial", s.errorHandler},
		{"Denied may return an error", s.deniedWithError},
		{"errors of handlers have the headers", s.failingHandler},
		{"outer middleware sees the denial", s.outerMiddleware},
		{"lines of others are kept", s.linesOfOthers},
		{"a guard returns the error of Denied", s.guardWithError},

		{"a request as a limiter reads it", s.request},
		{"the host of an absolute form", s.absoluteForm},
		{"the peer", s.peer},
		{"the peer of a listener with addresses of its own", s.otherPeer},
		{"ProxyHeader is the framework's", s.proxyHeader},
		{"reading a request does not allocate", s.allocations},
		{"nothing kept changes when connections are reused", s.reuse},

		{"trap 47: headers of chunked requests", s.chunkedHeaders},
		{"trap 47: trailers of streams", s.trailersOfStreams},
		{"trap 47: cookies of chunked requests", s.cookies},
		{"trap 47: middleware that removes a header", s.removedHeader},
		{"trap 47: c.IP of a trailer", s.ipOfATrailer},
		{"trap 47: nothing of a trailer is seen", s.randomTrailers},
		{"the body of a denied stream is no request", s.deniedStream},
		{"headers that fasthttp keeps once", s.keptOnce},
		{"trap 35: names of headers compare without case", s.namesWithoutCase},

		{"each place of a limiter sees the route that is going to answer", s.routeByPlace},
		{"a limiter for a star stands in front of all routes", s.routeBehindAStar},
		{"the search finds what Fiber matches", s.search},
		{"trap 52: a condition on a route behind another", s.conditionBehindAnother},
		{"trap 52: middleware that rewrites behind the limiter", s.rewritingMiddleware},
		{"a bypass of a route behind another", s.bypassBehindAnother},
		{"spellings of a route are one bucket", s.spellings},
		{"a condition on a prefix of Use", s.prefixOfUse},

		{"a context further in is not the request's", s.innerContext},
		{"trap 49: a streamed body that breaks off", s.brokenStream},
		{"trap 60: Prefork with limits in memory does not start", s.preforkDoesNotStart},
		{"trap 60: in a child of Prefork", s.childOfPrefork},
	} {
		t.Run(tt.name, tt.run)
	}
}

// suite is the tests of Run.
type suite[C Ctx[C]] struct {
	f        Framework[C]
	fasthttp fasthttp
}

// app is an app with the defaults.
func (s suite[C]) app() App[C] { return s.f.App(Options[C]{}) }

// everyone returns a limiter in memory of one limit an hour for everyone, named "api".
func (s suite[C]) everyone(perHour int64) func(C) error {
	return s.f.Limit(core.NewMemory(), core.PerHour(perHour).By(keyfuncs.Everyone()).Named("api"))
}

func hello[C Ctx[C]](c C) error { return c.SendString("hello") }
func pass[C Ctx[C]](c C) error  { return c.Next() }

// response is a response that was read.
type response struct {
	*http.Response
	body string
}

// ask sends a request to an app.
func ask[C any](t *testing.T, app App[C], method, path string, header ...string) response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res := must.Get(app.Test(r))(t)
	defer res.Body.Close()
	return response{res, string(must.Get(io.ReadAll(res.Body))(t))}
}

// seen calls read with what a limiter at the route "/items/:id" sees of r.
func (s suite[C]) seen(t *testing.T, options Options[C], r *http.Request, read func(C, keyfuncs.Request)) {
	t.Helper()
	Seen(t, s.f, options, r, read)
}

// Seen calls read with what a limiter at the route "/items/:id" sees of r.
func Seen[C Ctx[C]](t *testing.T, f Framework[C], options Options[C], r *http.Request, read func(C, keyfuncs.Request)) {
	t.Helper()
	app, called, reader := f.App(options), false, f.Reader()
	app.Add(r.Method, "/items/:id", func(c C) error {
		called = true
		seen, _ := reader(c) // not released: read may keep it
		read(c, seen)
		return nil
	})
	res := must.Get(limittest.Exchange(app.ServeConn, r))(t)
	_ = res.Body.Close()
	if !called {
		t.Fatalf("the handler was not called: %d", res.StatusCode)
	}
}

// Values are copies of all lines of a header.
func Values(r keyfuncs.Request, name string) []string {
	var all []string
	for i := 0; ; i++ {
		value, ok := r.Header(name, i)
		if !ok {
			return all
		}
		all = append(all, strings.Clone(value))
	}
}
