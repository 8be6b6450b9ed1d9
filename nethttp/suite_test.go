package nethttp_test

import (
	"context"
	"io"
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
	limittest.RunGuards(t, "nethttp", build, limittest.Guards{
		Make: func(s *limittest.Settings, limits ...core.Limit) any {
			with := func() any { return nethttp.With(s.Config, config(s.Layer, nil)) }
			return s.Made(with).(*nethttp.Settings).Guard(limits...)
		},
	})
}

func TestClosures(t *testing.T) {
	param := func(r *http.Request, name string) string { return r.PathValue(name) }
	limittest.RunClosures(t, build, limittest.StdClosures(nethttp.Key, nethttp.Matches, param))
}

func build(_ testing.TB, app limittest.App) limittest.Server {
	mux := http.NewServeMux()
	for _, route := range app.Routes {
		path := route.Path
		if path == "/" {
			path = "/{$}" // "/" would match all paths
		}
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			route.Handle(limittest.HTTPCall{
				Writer: w, Request: r,
				FromContext: func() (core.Decision, bool) { return nethttp.FromContext(r.Context()) },
				ChargeUnits: func(n int64, limits ...string) error { return nethttp.Charge(r.Context(), n, limits...) },
				AskGuard: func(guard any, key string, cost int64) bool {
					return guard.(*nethttp.Guard).Allow(w, r, key, cost)
				},
			})
		})
		mux.Handle(strings.TrimPrefix(route.Method+" "+path, " "), around(h, route.Layers, nil))
	}
	var h http.Handler = mux
	if len(app.Front) > 0 { // something stands between it and the mux
		h = around(http.HandlerFunc(mux.ServeHTTP), app.Front, nil)
	}
	h = around(h, app.Layers, mux)
	return limittest.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch value := recover(); value {
			case nil:
			case http.ErrAbortHandler:
				panic(value)
			default:
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		limittest.SetOuter(w.Header(), app.Outer)
		if user := r.Header.Get(limittest.UserHeader); user != "" {
			var key any = limittest.UserKey{}
			if app.SignIn == limittest.InLocals {
				key = limittest.UserLocal
			}
			r = r.WithContext(context.WithValue(r.Context(), key, user))
		}
		r, cancel := limittest.Deadline(r)
		defer cancel()
		h.ServeHTTP(w, r)
	}))
}

func around(h http.Handler, layers []limittest.Layer, mux *http.ServeMux) http.Handler {
	for i := len(layers) - 1; i >= 0; i-- {
		if h == http.Handler(mux) {
			h = middleware(layers[i], nil)(h) // which sees the mux
		} else {
			h = middleware(layers[i], mux)(h)
		}
	}
	return h
}

func middleware(l limittest.Layer, mux *http.ServeMux) func(http.Handler) http.Handler {
	if l.Load != nil {
		return nethttp.Measure(l.Load)
	}
	if l.Store != nil {
		return nethttp.Limit(l.Store, l.Limits...)
	}
	if l.With != nil {
		with := func() any { return nethttp.With(l.With.Config, config(l.With.Layer, mux)) }
		settings := l.With.Made(with).(*nethttp.Settings)
		if l.Policies != nil {
			return settings.Policy(l.Policies, "live")
		}
		return settings.Limit(l.Limits...)
	}
	if !l.NoContext && l.Skip == nil && l.Denied == nil && l.Log == nil && mux == nil {
		return nethttp.New(l.Limiter)
	}
	return nethttp.New(l.Limiter, config(l, mux))
}

func config(l limittest.Layer, mux *http.ServeMux) nethttp.Config {
	config := nethttp.Config{Mux: mux}
	config.NoContext = l.NoContext
	if l.Skip != nil {
		config.Skip = func(r *http.Request) bool { return l.Skip(r.Header.Get) }
	}
	if l.Log != nil {
		config.Denied = func(w http.ResponseWriter, r *http.Request, d core.Decision) {
			l.Log(d)
			nethttp.Deny(w, r, d)
		}
	}
	if l.Denied != nil {
		config.Denied = func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			status, body := l.Denied(d)
			switch {
			case status != 0:
				limittest.Reply(w, status, body)
			case body != "":
				_, _ = io.WriteString(w, body)
			}
		}
	}
	return config
}
