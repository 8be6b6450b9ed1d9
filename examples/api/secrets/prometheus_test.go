package secrets

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// openPrometheus emits what Prometheus scrapes in each format: OpenMetrics with exemplars, the
// classic text, and native histograms, as text.
func openPrometheus(t *testing.T, _ core.Store) *sink {
	registry := prometheus.NewRegistry()
	observer := must.Get(weblimitprom.New(weblimitprom.Config{Registerer: registry, TraceID: func(context.Context) string { return traceID }}))(t)
	page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return &sink{observer: observer, emitted: func() string {
		var all strings.Builder
		for accept, ends := range map[string]string{"application/openmetrics-text;version=1.0.0": "# EOF\n", "text/plain;version=0.0.4": "\n"} {
			r, w := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody), httptest.NewRecorder()
			r.Header.Set("Accept", accept)
			page.ServeHTTP(w, r)
			kind, _, _ := strings.Cut(accept, ";")
			if text := w.Body.String(); !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || !strings.HasSuffix(text, ends) ||
				!strings.Contains(text, `weblimit_decisions_total{decision="denied",limit="login"`) {
				t.Errorf("asked for %s, got %s:\n%.2000s", accept, w.Header().Get("Content-Type"), text)
			}
			all.WriteString(w.Body.String())
		}
		families, err := registry.Gather()
		if err != nil {
			t.Error(err)
		}
		for _, family := range families {
			all.WriteString(family.String() + "\n")
		}
		return all.String()
	}}
}
