package stdhttp

import (
	"maps"
	"net/http"
	"strconv"

	"github.com/weblimit/weblimit/usage"
)

// Tell writes what a client is told of its limits.
func Tell(w http.ResponseWriter, r *http.Request, a usage.Answer) {
	h := w.Header()
	clearStale(h)
	maps.Copy(h, a.Header)
	if len(h["Content-Encoding"]) == 0 {
		h["Content-Length"] = []string{strconv.Itoa(len(a.Body))}
	}
	w.WriteHeader(a.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.Body) // fails only when the client is gone
	}
}
