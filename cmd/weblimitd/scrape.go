package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
)

// metricsHandler is what the listener for metrics serves: all metrics on one page, since a Prometheus is told one
// path. On the admin listener, those of parts have pages of their own.
func (s *daemon) metricsHandler(reach listen.Reach) http.Handler {
	own := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{DisableCompression: true})
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "text/plain") // in the format that parts write, whatever else a Prometheus prefers
		own.ServeHTTP(w, r)
		for _, m := range s.mounts {
			for _, h := range m.admin {
				h.ServeHTTP(w, r)
			}
		}
	})
	page := (&operators{reach: reach, hosts: s.admin.operators.hosts}).known(listen.AtMost(maxScrapes, all))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != string(s.options.metricsPath) {
			answerProblem(w, http.StatusNotFound, "There are metrics at "+string(s.options.metricsPath)+", and nothing else.")
			return
		}
		page.ServeHTTP(w, r)
	})
}
