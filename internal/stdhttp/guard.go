package stdhttp

import (
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Guard sets the headers of a decision within a handler. For a denial it prepares the response
// for hook, the application's own answer; without a hook it answers.
func Guard(w http.ResponseWriter, r *http.Request, d *core.Decision, hook func()) {
	d.SetHeaders(adapter.HeaderMap(w.Header()))
	switch {
	case d.Allowed:
	case hook != nil:
		ClearValidators(w.Header())
		hook()
	default:
		Deny(w, r, d)
	}
}

// Allow is the type of Allow of guards in plain handlers.
type Allow = func(w http.ResponseWriter, r *http.Request, key string, cost int64) bool

// AllowBy returns Allow of a guard in plain handlers, with the hooks of an adapter's Config.
func AllowBy(decide func(r *http.Request, key string, cost int64) core.Decision, skip func(*http.Request) bool, denied func(http.ResponseWriter, *http.Request, core.Decision)) Allow {
	return func(w http.ResponseWriter, r *http.Request, key string, cost int64) bool {
		if skip != nil && skip(r) {
			return true
		}
		d := decide(r, key, cost)
		var hook func()
		if denied != nil {
			hook = func() { Denied(w, r, &d, denied) }
		}
		Guard(w, r, &d, hook)
		return d.Allowed
	}
}
