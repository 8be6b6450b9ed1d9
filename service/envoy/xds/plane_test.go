package xds_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weblimit/weblimit/internal/test/must"
)

const typeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// plane is a control plane that does what a test says, and nothing else. A real one is in cmd/weblimitd/internal/xdssuite.
type plane struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer

	addr    string
	server  *grpc.Server
	streams chan *stream
}

// stream is one that a source has opened.
type stream struct {
	discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer

	requests chan *discovery.DiscoveryRequest
	ending   chan error // what the stream is to end with
	gone     chan struct{}
}

// startPlane serves on an address, or on a free port.
func startPlane(t *testing.T, addr string, options ...grpc.ServerOption) *plane {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	listener := must.Get(net.Listen("tcp", addr))(t)
	p := &plane{addr: listener.Addr().String(), server: grpc.NewServer(options...), streams: make(chan *stream, 100)}
	discovery.RegisterAggregatedDiscoveryServiceServer(p.server, p)
	var serving sync.WaitGroup
	serving.Go(func() { _ = p.server.Serve(listener) })
	t.Cleanup(func() {
		p.server.Stop()
		serving.Wait()
	})
	return p
}

// StreamAggregatedResources implements discovery.AggregatedDiscoveryServiceServer.
func (p *plane) StreamAggregatedResources(to discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	s := &stream{to, make(chan *discovery.DiscoveryRequest, 100), make(chan error, 1), make(chan struct{})}
	p.streams <- s
	go func() {
		defer close(s.gone)
		for {
			request, err := to.Recv()
			if err != nil {
				return
			}
			s.requests <- request
		}
	}()
	select {
	case err := <-s.ending:
		return err
	case <-s.gone:
		return nil
	}
}

// patience is how long a test waits for what has to come.
const patience = time.Minute

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("%s has not come within %v", what, patience)
		panic("unreachable")
	}
}

// next returns the next stream, and its first request.
func (p *plane) next(t *testing.T) (*stream, *discovery.DiscoveryRequest) {
	t.Helper()
	s := receive(t, "a stream", p.streams)
	return s, s.request(t)
}

func (s *stream) request(t *testing.T) *discovery.DiscoveryRequest {
	t.Helper()
	return receive(t, "a request", s.requests)
}

// serve sends resources, and returns what the source says of them.
func (s *stream) serve(t *testing.T, version string, resources ...proto.Message) *discovery.DiscoveryRequest {
	t.Helper()
	s.send(t, answerOf(t, version, resources...))
	said := s.request(t)
	if said.GetResponseNonce() != "nonce of "+version {
		t.Errorf("the nonce of version %s is %q", version, said.GetResponseNonce())
	}
	return said
}

func (s *stream) send(t *testing.T, answer *discovery.DiscoveryResponse) {
	t.Helper()
	must.OK(t, s.Send(answer))
}

func answerOf(t *testing.T, version string, resources ...proto.Message) *discovery.DiscoveryResponse {
	t.Helper()
	answer := &discovery.DiscoveryResponse{VersionInfo: version, Nonce: "nonce of " + version, TypeUrl: typeURL}
	for _, r := range resources {
		answer.Resources = append(answer.Resources, must.Get(anypb.New(r))(t))
	}
	return answer
}

// perUser is a resource with a limit per user and day.
func perUser(domain string, requests uint32) *rlsconf.RateLimitConfig {
	return &rlsconf.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*rlsconf.RateLimitDescriptor{{
		Key: "user", RateLimit: &rlsconf.RateLimitPolicy{Unit: rlsconf.RateLimitUnit_DAY, RequestsPerUnit: requests},
	}}}
}

func fewRules(n int) []*rlsconf.RateLimitDescriptor {
	all := make([]*rlsconf.RateLimitDescriptor, n)
	for i := range all {
		all[i] = &rlsconf.RateLimitDescriptor{Key: fmt.Sprint("key", i), RateLimit: &rlsconf.RateLimitPolicy{Unit: rlsconf.RateLimitUnit_DAY, RequestsPerUnit: 1}}
	}
	return all
}
