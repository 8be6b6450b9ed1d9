package nethttp_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/nethttp"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build) }

func TestSuite(t *testing.T) { limittest.Run(t, "nethttp", build) }

func TestGuards(t *testing.T) {
	limittest.RunGuards(t, "nethttp", build, limittest.Guards{Make: adapter(nil).Guard})
}

func TestClosures(t *testing.T) {
	limittest.RunClosures(t, build, limittest.StdClosures(nethttp.Key, nethttp.Matches, (*http.Request).PathValue))
}

func TestNewPanicsAtStartUp(t *testing.T) { adapter(nil).PanicsAtStartUp(t, "nethttp") }

// net/http has no opinion on the client's address.
func TestFramework(t *testing.T) { limittest.RunFramework(t, build, false) }

// adapter makes middleware with Config.Mux, unless mux is nil.
func adapter(mux *http.ServeMux) limittest.Adapter[limittest.Middleware, nethttp.Config, *nethttp.Settings, *nethttp.Guard] {
	return limittest.Adapter[limittest.Middleware, nethttp.Config, *nethttp.Settings, *nethttp.Guard]{
		Limit: nethttp.Limit, With: nethttp.With,
		New: func(l *core.Limiter, config ...nethttp.Config) func(http.Handler) http.Handler {
			if mux != nil && config == nil {
				config = []nethttp.Config{{Mux: mux}}
			}
			return nethttp.New(l, config...)
		},
		Config: func(l limittest.Layer) nethttp.Config {
			plain := limittest.PlainConfigOf(l, nethttp.Deny)
			return nethttp.Config{Skip: plain.Skip, Denied: plain.Denied, NoContext: plain.NoContext, Mux: mux}
		},
	}
}

func build(_ testing.TB, app limittest.App) limittest.Server {
	mux := http.NewServeMux()
	for _, route := range app.Routes {
		path := route.Path
		if path == "/" {
			path = "/{$}" // "/" would match all paths
		}
		handler := limittest.PlainHandler(route, nethttp.FromContext)
		mux.Handle(strings.TrimPrefix(route.Method+" "+path, " "), around(handler, route.Layers, nil))
	}
	var h http.Handler = mux
	if len(app.Front) > 0 { // something stands between it and the mux
		h = around(http.HandlerFunc(mux.ServeHTTP), app.Front, nil)
	}
	return limittest.Serve(limittest.PlainOutermost(app)(around(h, app.Layers, mux)))
}

func around(h http.Handler, layers []limittest.Layer, mux *http.ServeMux) http.Handler {
	for i := len(layers) - 1; i >= 0; i-- {
		told := mux
		if h == http.Handler(mux) {
			told = nil // the limiter sees the mux
		}
		h = adapter(told).Middleware(layers[i])[0](h)
	}
	return h
}
