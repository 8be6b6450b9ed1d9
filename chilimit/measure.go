package chilimit

import (
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Measure returns middleware by which load measures the handlers behind it, without the time
// that they wait for their clients; see [core.Load]. It panics if load is nil.
func Measure(load *core.Load) func(http.Handler) http.Handler {
	if load == nil {
		panic("weblimit: chilimit.Measure: the load is nil")
	}
	return func(next http.Handler) http.Handler {
		var m mounts
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			in := requests.Get().(*request)
			in.Request, in.http, in.mounts = stdhttp.Of(r), r, &m
			work := adapter.Begin(load, in)
			in.release()
			stdhttp.Measure(work, w, r, next)
		})
	}
}
