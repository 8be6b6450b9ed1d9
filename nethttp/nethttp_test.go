package nethttp_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })

func limiter(t *testing.T, limits ...core.Limit) *core.Limiter {
	t.Helper()
	return must.Get(core.New(core.Config{Store: core.NewMemory(), Limits: limits}))(t)
}

func get(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// One middleware may go around several handlers: they share its buckets.
func TestOneMiddlewareAroundTwoHandlers(t *testing.T) {
	t.Parallel()
	limit := nethttp.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone()))
	check.Equal(t, "first", get(limit(ok), "GET", "/").Code, 200)
	check.Equal(t, "second", get(limit(ok), "GET", "/").Code, 429)
}

// The mux of the Config counts, not the pattern of one further out.
func TestRouteOfANestedMux(t *testing.T) {
	t.Parallel()
	inner := http.NewServeMux()
	inner.Handle("GET /api/items/{id}", ok)
	inner.Handle("GET /api/users/{id}", ok)
	outer := http.NewServeMux()
	outer.Handle("/api/", nethttp.New(limiter(t, core.PerHour(1).By(keyfuncs.Route())), nethttp.Config{Mux: inner})(inner))
	for _, tt := range []struct {
		path string
		want int
	}{{"/api/items/1", 200}, {"/api/items/2", 429}, {"/api/users/1", 200}, {"/api/none", 404}, {"/api/nothing", 429}} {
		check.Equal(t, tt.path, get(outer, "GET", tt.path).Code, tt.want)
	}
}

// A mux redirects and refuses methods by handlers that have no route of their own.
func TestRouteOfWhatTheMuxAnswersItself(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("GET /items/", ok)
	h := nethttp.New(limiter(t, core.PerHour(3).By(keyfuncs.Route())), nethttp.Config{Mux: mux})(mux)
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"DELETE", "/items/1", 405},
		{"GET", "/x/../items", 307},
		{"GET", "/none", 404},
		{"DELETE", "/items/2", 405},
		{"GET", "/nothing", 429},
	} {
		if w := get(h, tt.method, tt.path); w.Code != tt.want && (tt.want != 307 || w.Code/100 != 3) {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.path, w.Code, tt.want)
		}
	}
}

// Compressing middleware outside the limiter sets Content-Encoding before it
// knows the response, and compresses the denial as well.
func TestDenialInsideACompressor(t *testing.T) {
	t.Parallel()
	limited := nethttp.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone()))(ok)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		limited.ServeHTTP(compressed{w, z}, r)
	}))
	defer server.Close()
	for _, want := range []string{"hello", `{"type":`} {
		res := must.Get(server.Client().Get(server.URL))(t) // which asks for gzip and unpacks it
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !strings.HasPrefix(string(body), want) {
			t.Errorf("body %q, %v; want %s…", body, err, want)
		}
	}
}

type compressed struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (c compressed) Write(b []byte) (int, error) { return c.z.Write(b) }
