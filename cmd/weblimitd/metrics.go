package main

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc/codes"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/policy"
)

// metrics are those of the service. Those of its limits are in metrics/prometheus. No label has
// anything that a caller or a client has sent.
type metrics struct {
	registry *prometheus.Registry

	requests *prometheus.HistogramVec // handler, code
	calls    *prometheus.HistogramVec // code
	shed     *prometheus.CounterVec   // listener
	refused  *prometheus.CounterVec   // listener
	panics   prometheus.Counter
	reloads  *prometheus.CounterVec // what, result
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	buckets := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}
	m.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "weblimitd_request_duration_seconds", Help: "Time from a caller's request to the answer.", Buckets: buckets,
	}, []string{"handler", "code"})
	m.calls = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "weblimitd_grpc_duration_seconds", Help: "Time from a caller's call to the answer.", Buckets: buckets,
	}, []string{"code"})
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m.shed = counter("weblimitd_requests_shed_total", "Requests that were refused since too many were at work.", "listener")
	m.refused = counter("weblimitd_unauthenticated_total", "Requests without a valid token.", "listener")
	m.reloads = counter("weblimitd_reloads_total", "Times that something was read again, by result: ok or error.", "what", "result")
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{Name: "weblimitd_panics_total", Help: "Requests that were ended by a panic."})
	for _, listener := range []string{"data", "grpc"} {
		m.shed.WithLabelValues(listener)
		m.refused.WithLabelValues(listener)
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weblimitd_build_info", Help: "1, with the version as a label.",
		ConstLabels: prometheus.Labels{"version": core.Version(), "go": runtime.Version()},
	})
	info.Set(1)
	m.registry.MustRegister(m.requests, m.calls, m.shed, m.refused, m.reloads, m.panics, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) took(handler string, code int, d time.Duration) {
	if code == 0 {
		code = http.StatusOK
	}
	m.requests.WithLabelValues(handler, strconv.Itoa(code)).Observe(d.Seconds())
}

func (m *metrics) tookGRPC(code codes.Code, d time.Duration) {
	m.calls.WithLabelValues(code.String()).Observe(d.Seconds())
}

// reloaded counts that something was read again.
func (m *metrics) reloaded(what string, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.reloads.WithLabelValues(what, result).Inc()
}

// state is what is read when Prometheus asks.
type state struct {
	health    *health
	policies  *policy.Set
	guard     *guard
	listeners map[string]*listen.Bounded
	certs     map[string]*secure.Certificates
}

var (
	descReady       = prometheus.NewDesc("weblimitd_ready", "1 while the service is ready.", nil, nil)
	descStore       = prometheus.NewDesc("weblimitd_store_up", "1 while the store answers.", nil, nil)
	descPolicy      = prometheus.NewDesc("weblimitd_policy_info", "1, with the version of the policy that decides as a label.", []string{"version"}, nil)
	descSince       = prometheus.NewDesc("weblimitd_policy_since_timestamp_seconds", "When that version began to decide.", nil, nil)
	descChanges     = prometheus.NewDesc("weblimitd_policy_changes_total", "Versions that have replaced another.", nil, nil)
	descRefused     = prometheus.NewDesc("weblimitd_policy_refused_total", "Policies that were refused.", nil, nil)
	descWrong       = prometheus.NewDesc("weblimitd_policy_error", "1 while the policy that was last read is refused.", nil, nil)
	descAtWork      = prometheus.NewDesc("weblimitd_requests_in_flight", "Requests of callers at work.", nil, nil)
	descConnections = prometheus.NewDesc("weblimitd_connections", "Open connections.", []string{"listener"}, nil)
	descClosed      = prometheus.NewDesc("weblimitd_connections_refused_total", "Connections that were closed since there were too many.", []string{"listener"}, nil)
	descUntil       = prometheus.NewDesc("weblimitd_certificate_end_timestamp_seconds", "When the certificate of a listener ends.", []string{"listener"}, nil)

	// With --envoy-config, and the latter three where that is a control plane.
	descEnvoyDomains = prometheus.NewDesc("weblimitd_envoy_domains", "Domains of Envoy that have limits; without any, every request is answered OK.", nil, nil)
	descEnvoyWrong   = prometheus.NewDesc("weblimitd_envoy_error", "1 while the limits of Envoy that were last read are refused, or can't be read.", nil, nil)
	descConnected    = prometheus.NewDesc("weblimitd_xds_connected", "1 while there is a stream to the control plane.", nil, nil)
	descAccepted     = prometheus.NewDesc("weblimitd_xds_accepted_total", "Configurations of the control plane that were acknowledged.", nil, nil)
	descNotAccepted  = prometheus.NewDesc("weblimitd_xds_refused_total", "Configurations of the control plane that were refused.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descReady, descStore, descPolicy, descSince, descChanges, descRefused, descWrong, descAtWork, descConnections, descClosed, descUntil,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *state) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	_, ready := s.health.status()
	out, _ := s.health.storeOut()
	gauge(descReady, one(ready))
	gauge(descStore, one(!out))
	gauge(descAtWork, float64(s.guard.atWork.Load()))
	if s.policies != nil {
		p := s.policies.Status()
		gauge(descPolicy, 1, p.Version.String())
		gauge(descSince, float64(p.Since.UnixMilli())/1000)
		counter(descChanges, p.Changes)
		counter(descRefused, p.Refused)
		gauge(descWrong, one(p.Err != nil))
	}
	for name, l := range s.listeners {
		gauge(descConnections, float64(l.Open()), name)
		counter(descClosed, l.Refused(), name)
	}
	for name, c := range s.certs {
		gauge(descUntil, float64(c.Until().Unix()), name)
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
