package envoy

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Metrics returns a handler of the statistics of envoyproxy/ratelimit in the text format of Prometheus,
// by the names that its default mapping gives them, so that dashboards and alerts go on:
//
//	ratelimit_service_rate_limit_total_hits{domain="edge",key1="remote_address"}
//	ratelimit_service_rate_limit_over_limit, …_near_limit, …_within_limit, …_shadow_mode
//	ratelimit_service_should_rate_limit_error{err_type="redis_error"}, or service_error
//	ratelimit_service_config_load_success, ratelimit_service_config_load_error
//	ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}
//	ratelimit_service_global_shadow_mode, ratelimit_service_domain_not_found
//
// A rule on the n-th level has labels key1 to keyn. Hits of names beyond Config.MaxSeries have the
// label domain="" and no other. Decisions, outages and the store are metrics of an observer.
func (s *Server) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(s.stats.text())
	})
}

// Hits are the counters of one name of statistics, such as "edge.remote_address".
type Hits struct {
	Total, Within, Near, Over, Shadow uint64
}

// Hits returns the counters of all names. Those of names beyond Config.MaxSeries are under "".
func (s *Server) Hits() map[string]Hits {
	all := make(map[string]Hits)
	s.stats.series.Range(func(path, counted any) bool {
		all[dotted(path.(string))] = counted.(*series).hits()
		return true
	})
	if rest := s.stats.rest.hits(); rest != (Hits{}) {
		all[""] = rest
	}
	return all
}

func (s *series) hits() Hits {
	return Hits{s.total.Load(), s.within.Load(), s.near.Load(), s.over.Load(), s.shadow.Load()}
}

// text returns all statistics for Prometheus.
func (s *statistics) text() []byte {
	labelled := make(map[string]*series)
	s.series.Range(func(path, counted any) bool {
		labelled[labels(path.(string))] = counted.(*series)
		return true
	})
	if s.rest.total.Load() > 0 {
		labelled[labels("")] = &s.rest
	}
	sorted := slices.Sorted(maps.Keys(labelled))
	var b bytes.Buffer
	for _, metric := range []struct {
		name string
		of   func(*series) uint64
	}{
		{"total_hits", func(s *series) uint64 { return s.total.Load() }},
		{"within_limit", func(s *series) uint64 { return s.within.Load() }},
		{"near_limit", func(s *series) uint64 { return s.near.Load() }},
		{"over_limit", func(s *series) uint64 { return s.over.Load() }},
		{"shadow_mode", func(s *series) uint64 { return s.shadow.Load() }},
	} {
		fmt.Fprintf(&b, "# TYPE ratelimit_service_rate_limit_%s counter\n", metric.name)
		for _, l := range sorted {
			fmt.Fprintf(&b, "ratelimit_service_rate_limit_%s{%s} %d\n", metric.name, l, metric.of(labelled[l]))
		}
	}
	for _, metric := range []struct {
		name, labels string
		value        uint64
	}{
		{"should_rate_limit_error", `{err_type="redis_error"}`, s.storeErrors.Load()},
		{"should_rate_limit_error", `{err_type="service_error"}`, s.serviceErrors.Load()},
		{"config_load_success", "", s.loaded.Load()},
		{"config_load_error", "", s.notLoaded.Load()},
		{"total_requests", `{grpc_method="ShouldRateLimit"}`, s.requests.Load()},
		{"global_shadow_mode", "", s.shadowed.Load()},
		{"domain_not_found", "", s.unknownDomain.Load()},
	} {
		if metric.labels != `{err_type="service_error"}` {
			fmt.Fprintf(&b, "# TYPE ratelimit_service_%s counter\n", metric.name)
		}
		fmt.Fprintf(&b, "ratelimit_service_%s%s %d\n", metric.name, metric.labels, metric.value)
	}
	return b.Bytes()
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels returns the labels of a name: its domain, and a key for each level.
func labels(path string) string {
	var b strings.Builder
	for i, part := range strings.Split(path, separator) {
		name := "domain"
		if i > 0 {
			name = fmt.Sprintf(",key%d", i)
		}
		fmt.Fprintf(&b, `%s="%s"`, name, escaped.Replace(strings.ToValidUTF8(part, "\ufffd")))
	}
	return b.String()
}
