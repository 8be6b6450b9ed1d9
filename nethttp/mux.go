package nethttp

import (
	"net/http"
	"sync"

	"github.com/weblimit/weblimit/internal/stdhttp"
)

// outsideRequest is a request on its way to a mux, which knows its route.
type outsideRequest struct {
	stdhttp.Request
	http  *http.Request
	mux   *http.ServeMux
	asked bool
	route string // once asked
}

// outside holds requests for reuse: they are wider than a pointer, so each would
// be an allocation.
var outside = sync.Pool{New: func() any { return new(outsideRequest) }}

// Route asks the mux, once.
func (r *outsideRequest) Route() string {
	if !r.asked {
		_, pattern := r.mux.Handler(r.http)
		r.route, r.asked = stdhttp.Template(pattern), true
	}
	return r.route
}
