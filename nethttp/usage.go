package nethttp

import (
	"net/http"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/usage"
)

// Usage returns a handler that tells each client its own limits, as JSON: see package usage. Mount it behind what
// authenticates clients, and behind a limit of its own. It panics if a limiter of own has a key or condition of
// another framework.
func Usage(own *usage.Usage) http.Handler {
	for _, limiter := range own.Limiters() {
		adapter.New(limiter, "nethttp", "*http.Request")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stdhttp.Tell(w, r, own.Answer(insideRequest{stdhttp.Of(r)}))
	})
}
