package xdssuite

import (
	"context"
	"net"
	"sync"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cache "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xdsserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rlsconf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

const node = "envoy-ratelimit" // as Envoy Gateway calls its rate limit service

// plane is a control plane as that of Envoy Gateway's internal/globalratelimit/runner: a snapshot cache behind the Aggregated
// Discovery Service.
type plane struct {
	addr  string
	cache cache.SnapshotCache
	stop  func()

	mu   sync.Mutex
	said []*discovery.DiscoveryRequest // Guarded by mu.
	node *core.Node                    // of the last stream. Guarded by mu.
}

// startPlane serves on an address, or on a free port.
func startPlane(t *testing.T, addr string, options ...grpc.ServerOption) *plane {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	listener := must.Get(new(net.ListenConfig).Listen(ctx, "tcp", addr))(t)
	p := &plane{addr: listener.Addr().String(), cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil)}
	server := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(server, xdsserver.NewServer(ctx, p.cache, xdsserver.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.said, p.node = append(p.said, r), r.GetNode()
			return nil
		},
	}))
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	p.stop = sync.OnceFunc(func() {
		server.Stop()
		cancel()
		serving.Wait()
	})
	t.Cleanup(p.stop)
	return p
}

// set has the control plane serve resources under a version.
func (p *plane) set(t *testing.T, version string, configs ...*rlsconf.RateLimitConfig) {
	t.Helper()
	resources := make([]types.Resource, len(configs))
	for i, c := range configs {
		resources[i] = c
	}
	snapshot := must.Get(cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources}))(t)
	must.OK(t, p.cache.SetSnapshot(t.Context(), node, snapshot))
}

// hears waits until a request of the last stream is as wanted.
func (p *plane) hears(t *testing.T, what string, wanted func(r *discovery.DiscoveryRequest) bool) *discovery.DiscoveryRequest {
	t.Helper()
	var found *discovery.DiscoveryRequest
	wait.Until(t, "the control plane hears "+what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, r := range p.said {
			if wanted(r) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// accepts waits until a version was acknowledged.
func (p *plane) accepts(t *testing.T, version string) {
	t.Helper()
	p.hears(t, "that "+version+" was taken", func(r *discovery.DiscoveryRequest) bool {
		return r.GetVersionInfo() == version && r.GetErrorDetail() == nil && r.GetResponseNonce() != ""
	})
}

// perUser is a resource with a limit per user and day.
func perUser(domain string, requests uint32) *rlsconf.RateLimitConfig {
	return &rlsconf.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*rlsconf.RateLimitDescriptor{{
		Key: "user", RateLimit: &rlsconf.RateLimitPolicy{Unit: rlsconf.RateLimitUnit_DAY, RequestsPerUnit: requests},
	}}}
}
