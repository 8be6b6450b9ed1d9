package chilimit_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build, differences) }

func TestSuite(t *testing.T) { limittest.Run(t, "chi", build, differences) }

func TestGuards(t *testing.T) {
	limittest.RunGuards(t, "chi", build, limittest.Guards{Make: adapter.Guard})
}

func TestClosures(t *testing.T) {
	limittest.RunClosures(t, build, limittest.StdClosures(chilimit.Key, chilimit.Matches, chi.URLParam))
}

func TestNewPanicsAtStartUp(t *testing.T) { adapter.PanicsAtStartUp(t, "chilimit") }

// Chi has no opinion on the client's address.
func TestFramework(t *testing.T) { limittest.RunFramework(t, build, false) }

var adapter = limittest.Adapter[limittest.Middleware, chilimit.Config, *chilimit.Settings, *chilimit.Guard]{
	Limit: chilimit.Limit, New: chilimit.New, With: chilimit.With,
	Config: func(l limittest.Layer) chilimit.Config {
		return chilimit.Config(limittest.PlainConfigOf(l, chilimit.Deny))
	},
}

// A limiter directly around a router asks it.
var differences = limittest.Differences{RoutesInFront: true}

func build(_ testing.TB, app limittest.App) limittest.Server {
	r := chi.NewRouter()
	r.Use(limittest.PlainOutermost(app))
	r.Use(adapter.Middleware(app.Layers...)...)
	for _, route := range app.Routes {
		handler := limittest.PlainHandler(route, chilimit.FromContext)
		if with := r.With(adapter.Middleware(route.Layers...)...); route.Method == "" {
			with.HandleFunc(route.Path, handler)
		} else {
			with.MethodFunc(route.Method, route.Path, handler)
		}
	}
	var h http.Handler = r
	for _, limit := range adapter.Middleware(app.Front...) {
		h = limit(h)
	}
	return limittest.Serve(h)
}
