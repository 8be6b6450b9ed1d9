package limittest

import (
	"context"
	"io"
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Middleware is that of adapters over plain handlers.
type Middleware = func(http.Handler) http.Handler

// PlainConfig has the fields of their Config.
type PlainConfig struct {
	Skip      func(*http.Request) bool
	Denied    func(w http.ResponseWriter, r *http.Request, d core.Decision)
	NoContext bool
}

// PlainConfigOf is [Adapter.Config], where deny is the adapter's Deny.
func PlainConfigOf(l Layer, deny func(http.ResponseWriter, *http.Request, core.Decision)) PlainConfig {
	config := PlainConfig{NoContext: l.NoContext}
	if l.Skip != nil {
		config.Skip = func(r *http.Request) bool { return l.Skip(r.Header.Get) }
	}
	if l.Log != nil {
		config.Denied = func(w http.ResponseWriter, r *http.Request, d core.Decision) {
			l.Log(d)
			deny(w, r, d)
		}
	}
	if l.Denied != nil {
		config.Denied = func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
			switch status, body := l.Denied(d); {
			case status != 0:
				Reply(w, status, body)
			case body != "":
				_, _ = io.WriteString(w, body)
			}
		}
	}
	return config
}

// PlainOutermost is what an app has around all limiters.
func PlainOutermost(app App) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { // as chi's middleware.Recoverer, without the printing
				switch value := recover(); value {
				case nil:
				case http.ErrAbortHandler:
					panic(value)
				default:
					w.WriteHeader(http.StatusInternalServerError)
				}
			}()
			SetOuter(w.Header(), app.Outer)
			if user := r.Header.Get(UserHeader); user != "" {
				var key any = UserKey{}
				if app.SignIn == InLocals {
					key = UserLocal // there are no locals
				}
				r = r.WithContext(context.WithValue(r.Context(), key, user))
			}
			r, cancel := Deadline(r)
			defer cancel()
			next.ServeHTTP(w, r)
		})
	}
}

// PlainHandler is the handler of a route. fromContext is the adapter's.
func PlainHandler(route Route, fromContext func(context.Context) (core.Decision, bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		route.Handle(HTTPCall{
			Writer: w, Request: r,
			FromContext: func() (core.Decision, bool) { return fromContext(r.Context()) },
			AskGuard: func(guard any, key string, cost int64) bool {
				return guard.(*adapter.GuardOf[stdhttp.Allow]).Allow(w, r, key, cost)
			},
		})
	}
}
