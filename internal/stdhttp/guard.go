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
