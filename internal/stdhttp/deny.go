package stdhttp

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// stale are the headers that middleware outside the limiter may have set for the
// response it expected. They would be wrong on a denial, or let a cache keep it.
//
// Content-Encoding is not among them: compressing middleware sets it before
// it calls the limiter and then compresses the denial too, so that without it
// the client would get bytes it can't read.
var stale = [...]string{
	"Accept-Ranges",
	"Age",
	"Cdn-Cache-Control",
	"Content-Digest",
	"Content-Disposition",
	"Content-Language",
	"Content-Length",
	"Content-Location",
	"Content-Md5",
	"Content-Range",
	"Digest",
	"Etag",
	"ETag", // as some applications set it in the map itself
	"Expires",
	"Last-Modified",
	"Repr-Digest",
	"Surrogate-Control",
}

var isStale = func() map[string]bool {
	is := make(map[string]bool, len(stale))
	for _, name := range stale {
		is[name] = true
	}
	return is
}()

// ClearValidators prepares a response's headers for a denial: it removes headers that described
// the response of the handler, and forbids caches to store the denial. It also runs before a
// Denied hook.
func ClearValidators(h http.Header) {
	clearStale(h)
	h["Cache-Control"] = []string{noStore}
}

func clearStale(h http.Header) {
	for name := range h { // usually fewer than in stale
		if isStale[name] {
			delete(h, name)
		}
	}
}

const noStore = "no-store"

// Deny writes a denial: status, problem body and the headers that belong to
// them. The headers of the decision have to be set already.
func Deny(w http.ResponseWriter, r *http.Request, d *core.Decision) {
	h := w.Header()
	clearStale(h)
	// In one allocation, and not shared: middleware may change the values of a response in place.
	values := &[3]string{noStore, core.ProblemType}
	h["Cache-Control"], h["Content-Type"] = values[:1:1], values[1:2:2]
	body, language := d.AppendProblem(make([]byte, 0, 512), strings.Join(r.Header["Accept-Language"], ","))
	if language != "" {
		h["Content-Language"] = []string{language}
		h.Add("Vary", "Accept-Language")
	}
	if len(h["Content-Encoding"]) == 0 {
		values[2] = strconv.Itoa(len(body))
		h["Content-Length"] = values[2:]
	}
	w.WriteHeader(d.Status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) //nolint:gosec // G705: JSON with nothing of the request in it; fails only when the client is gone
	}
}

// Answer calls next, or answers a denial: by the application's hook if there is one, otherwise by
// Deny.
func Answer(limiter *adapter.Limiter, w http.ResponseWriter, r *http.Request, d *core.Decision, next http.Handler, hook func(http.ResponseWriter, *http.Request, core.Decision)) {
	switch {
	case limiter.Reserved(d):
		serve(w, r, d, next)
	case d.Allowed:
		next.ServeHTTP(w, r)
	case hook != nil:
		ClearValidators(w.Header())
		Denied(w, r, d, hook)
	default:
		Deny(w, r, d)
	}
}

// serve has next handle a request that has something reserved.
func serve(w http.ResponseWriter, r *http.Request, d *core.Decision, next http.Handler) {
	f := Follow(d, r)
	defer f.Unwind()
	next.ServeHTTP(f.Watch(w), r)
	f.End(Ending{Status: http.StatusOK, Rendered: true})
}
