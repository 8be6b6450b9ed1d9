package envoy

import (
	"context"
	"log/slog"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// startWithout has no limits decide, until there are files that are good.
func (s *Server) startWithout(reason error) error {
	none, err := s.snapshot(nil, "", nil)
	if err != nil {
		return err
	}
	s.current.Store(none)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Since = time.Now()
	s.tellHealth()
	s.config.Logger.LogAttrs(context.Background(), slog.LevelWarn, "weblimit: envoy: started without limits, every request is answered OK until there are good files",
		slog.String("error", reason.Error()))
	return nil
}

// tellHealth has health checks say whether requests can be decided. After Shutdown it changes nothing. s.mu is held.
func (s *Server) tellHealth() {
	says := healthpb.HealthCheckResponse_SERVING
	if s.config.UnhealthyWithout && s.status.Domains == 0 {
		says = healthpb.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus(healthName, says)
	s.health.SetServingStatus("", says)
}
