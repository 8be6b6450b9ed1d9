package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/service/envoy"
	"github.com/weblimit/weblimit/service/envoy/xds"
)

// envoyState is what is read of Envoy's limits when Prometheus asks.
type envoyState struct {
	server *envoy.Server
	source *xds.Source // nil without a control plane
}

// Describe implements prometheus.Collector.
func (s *envoyState) Describe(to chan<- *prometheus.Desc) {
	to <- descEnvoyDomains
	to <- descEnvoyWrong
	if s.source != nil {
		to <- descConnected
		to <- descAccepted
		to <- descNotAccepted
	}
}

// Collect implements prometheus.Collector.
func (s *envoyState) Collect(to chan<- prometheus.Metric) {
	now := s.server.Status()
	to <- prometheus.MustNewConstMetric(descEnvoyDomains, prometheus.GaugeValue, float64(now.Domains))
	to <- prometheus.MustNewConstMetric(descEnvoyWrong, prometheus.GaugeValue, one(now.Err != nil))
	if s.source == nil {
		return
	}
	plane := s.source.Status()
	to <- prometheus.MustNewConstMetric(descConnected, prometheus.GaugeValue, one(plane.Connected))
	to <- prometheus.MustNewConstMetric(descAccepted, prometheus.CounterValue, float64(plane.Accepted))
	to <- prometheus.MustNewConstMetric(descNotAccepted, prometheus.CounterValue, float64(plane.Refused))
}
