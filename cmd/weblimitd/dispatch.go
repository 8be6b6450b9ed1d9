package main

import (
	"net/http"
	"strings"
)

// dispatcher finds the part that a request is for by its path as it was sent: http.ServeMux would answer
// paths such as /a//b with a redirection, and the path of a gateway's subrequest is its client's.
type dispatcher struct {
	exact    map[string]http.Handler
	prefixes map[string]http.Handler // that end with a slash; the longest counts
	none     http.Handler
}

func (d *dispatcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if h := d.exact[path]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	var found http.Handler
	longest := 0
	for prefix, h := range d.prefixes {
		if len(prefix) > longest && strings.HasPrefix(path, prefix) {
			found, longest = h, len(prefix)
		}
	}
	if found == nil {
		found = d.none
	}
	found.ServeHTTP(w, r)
}

// dataHandler is what callers ask.
func (s *daemon) dataHandler() http.Handler {
	probes := healthHandler(s.health)
	nothing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerProblem(w, http.StatusNotFound, "There is nothing at this path.")
	})
	d := &dispatcher{
		exact:    map[string]http.Handler{"/healthz": probes, "/readyz": probes},
		prefixes: map[string]http.Handler{},
		none:     s.guard.wrap(&mount{name: "none"}, nothing),
	}
	for _, m := range s.mounts {
		for path, h := range m.open {
			d.exact[path] = h
		}
		for path, h := range m.http {
			if strings.HasSuffix(path, "/") {
				d.prefixes[path] = s.guard.wrap(m, h)
			} else {
				d.exact[path] = s.guard.wrap(m, h)
			}
		}
	}
	return d
}
