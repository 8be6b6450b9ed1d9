package chilimit_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build, differences) }

func TestSuite(t *testing.T) { limittest.Run(t, "chi", build, differences) }

func TestGuards(t *testing.T) {
	limittest.RunGuards(t, "chi", build, limittest.Guards{
		Make: func(s *limittest.Settings, limits ...core.Limit) any {
			with := func() any { return chilimit.With(s.Config, config(s.Layer)) }
			return s.Made(with).(*chilimit.Settings).Guard(limits...)
		},
	})
}

func TestClosures(t *testing.T) {
	limittest.RunClosures(t, build, limittest.StdClosures(chilimit.Key, chilimit.Matches, chi.URLParam))
}

// A limiter directly around a router asks it.
var differences = limittest.Differences{RoutesInFront: true}

func build(_ testing.TB, app limittest.App) limittest.Server {
	r := chi.NewRouter()
	r.Use(recoverer, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			limittest.SetOuter(w.Header(), app.Outer)
			if user := r.Header.Get(limittest.UserHeader); user != "" {
				var key any = limittest.UserKey{}
				if app.SignIn == limittest.InLocals {
					key = limittest.UserLocal // chi has no locals of its own
				}
				r = r.WithContext(context.WithValue(r.Context(), key, user))
			}
			r, cancel := limittest.Deadline(r)
			defer cancel()
			next.ServeHTTP(w, r)
		})
	})
	r.Use(middleware(app.Layers)...)
	for _, route := range app.Routes {
		handler := func(w http.ResponseWriter, r *http.Request) {
			route.Handle(limittest.HTTPCall{
				Writer: w, Request: r,
				FromContext: func() (core.Decision, bool) { return chilimit.FromContext(r.Context()) },
				ChargeUnits: func(n int64, limits ...string) error { return chilimit.Charge(r.Context(), n, limits...) },
				AskGuard: func(guard any, key string, cost int64) bool {
					return guard.(*chilimit.Guard).Allow(w, r, key, cost)
				},
			})
		}
		if with := r.With(middleware(route.Layers)...); route.Method == "" {
			with.HandleFunc(route.Path, handler)
		} else {
			with.MethodFunc(route.Method, route.Path, handler)
		}
	}
	var h http.Handler = r
	for _, limit := range middleware(app.Front) {
		h = limit(h)
	}
	return limittest.Serve(h)
}

// recoverer is chi's middleware.Recoverer without the printing.
func recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch value := recover(); value {
			case nil:
			case http.ErrAbortHandler:
				panic(value)
			default:
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func middleware(layers []limittest.Layer) []func(http.Handler) http.Handler {
	var chain []func(http.Handler) http.Handler
	for _, l := range layers {
		switch {
		case l.Load != nil:
			chain = append(chain, chilimit.Measure(l.Load))
		case l.With != nil:
			with := func() any { return chilimit.With(l.With.Config, config(l.With.Layer)) }
			settings := l.With.Made(with).(*chilimit.Settings)
			if l.Policies != nil {
				chain = append(chain, settings.Policy(l.Policies, "live"))
			} else {
				chain = append(chain, settings.Limit(l.Limits...))
			}
		case l.Store != nil:
			chain = append(chain, chilimit.Limit(l.Store, l.Limits...))
		case !l.NoContext && l.Skip == nil && l.Denied == nil && l.Log == nil:
			chain = append(chain, chilimit.New(l.Limiter))
		default:
			chain = append(chain, chilimit.New(l.Limiter, config(l)))
		}
	}
	return chain
}

func config(l limittest.Layer) chilimit.Config {
	var config chilimit.Config
	config.NoContext = l.NoContext
	if l.Skip != nil {
		config.Skip = func(r *http.Request) bool { return l.Skip(r.Header.Get) }
	}
	if l.Log != nil {
		config.Denied = func(w http.ResponseWriter, r *http.Request, d core.Decision) {
			l.Log(d)
			chilimit.Deny(w, r, d)
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
