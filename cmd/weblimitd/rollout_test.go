package main_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// endpoints are the addresses of a Service of Kubernetes, which callers hear of.
type endpoints struct {
	*manual.Resolver
	in []*instance
}

func (e *endpoints) state() (s resolver.State) {
	for _, in := range e.in {
		s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: in.grpc}}})
	}
	return s
}

// add has callers hear of an instance that is ready, and remove of one that is not any more.
func (e *endpoints) add(in *instance) {
	e.in = append(e.in, in)
	e.UpdateState(e.state())
}

func (e *endpoints) remove(in *instance) {
	e.in = slices.DeleteFunc(e.in, func(other *instance) bool { return other == in })
	e.UpdateState(e.state())
}

// Three instances are replaced one after the other while Envoys ask: as Kubernetes does it, a new one begins to serve first, and
// the old one is told to end before callers have heard that it does. No call fails, and none is charged twice or not at all.
func TestARollOutLosesNoCall(t *testing.T) {
	t.Parallel()
	const limit, replicas, callers = 10_000_000, 3, 8 // of a window that ends once a year
	server := redistest.StartTCP(t)
	file := write(t, "edge.yaml", fmt.Sprintf("domain: edge\ndescriptors:\n  - key: all\n    rate_limit: {unit: year, requests_per_unit: %d}\n", limit))
	begin := func() *instance {
		return start(t, nil, "--envoy-config", filepath.Dir(file), "--grpc-listen", "127.0.0.1:0", "--redis", "redis://"+server.Addr(),
			"--drain-delay", "500ms", "--drain-timeout", "5m", "--envoy-timeout", "1m")
	}
	of := &endpoints{Resolver: manual.NewBuilderWithScheme("endpoints")}
	for range replicas {
		of.in = append(of.in, begin())
	}
	of.InitialState(of.state())
	conn := must.Get(grpc.NewClient(of.Scheme()+":///weblimit", grpc.WithResolvers(of), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`)))(t)
	t.Cleanup(func() { _ = conn.Close() })
	ask := func() (*rls.RateLimitResponse, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		return rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "all"}},
		}}})
	}

	var served atomic.Int64
	var load sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range callers {
		load.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond) // more than some thousand a second finds nothing more
				if _, err := ask(); err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
			}
		})
	}
	goesOn := func() {
		before := served.Load()
		wait.Until(t, "calls are served", func() bool { return served.Load() > before+10*callers || t.Failed() })
	}
	for _, old := range slices.Clone(of.in) {
		goesOn()
		of.add(begin())
		goesOn()
		old.signal(t, syscall.SIGTERM) // at the same time as its address goes, which takes a moment to be heard
		of.remove(old)
		check.Equal(t, "how it ends", old.exit(t), 0)
	}
	goesOn()
	stop()
	load.Wait()
	last := must.Get(ask())(t)
	check.Equal(t, "calls that were charged", limit-int64(last.GetStatuses()[0].GetLimitRemaining()), served.Load()+1)
}
