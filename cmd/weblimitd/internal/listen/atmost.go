package listen

import "net/http"

// AtMost returns a handler that has at most n requests at work and answers others 503 at once.
func AtMost(n int, h http.Handler) http.Handler {
	places := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			h.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests for this are at work", http.StatusServiceUnavailable)
		}
	})
}
