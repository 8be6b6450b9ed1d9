package peers

import (
	"context"
	"net/http"

	"github.com/go-chi/httprate"
)

var httpRate = Peer{
	Name: "httprate", Module: "github.com/go-chi/httprate", Counts: "sliding window of two counters",
	Memory: func(q Quota) (Limiter, error) {
		// It decides HTTP requests only: one request serves all checks, and headers are off.
		l := httprate.NewRateLimiter(int(q.Units), q.Window, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
		r, err := http.NewRequest(http.MethodGet, "/", http.NoBody)
		if err != nil {
			return Limiter{}, err
		}
		return Limiter{Check: func(_ context.Context, key string) (bool, error) {
			return !l.OnLimit(nil, r, key), nil
		}}, nil
	},
	HTTP: func(q Quota) (func(http.Handler) http.Handler, error) {
		return httprate.LimitBy(int(q.Units), q.Window, clientIP), nil
	},
}
