package envoy_test

import (
	"context"
	"fmt"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// A service by a file of envoyproxy/ratelimit.
func ExampleNew() {
	server, err := envoy.New(envoy.Config{
		Source: envoy.Files(policy.File{Name: "edge.yaml", Text: []byte(`
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {unit: year, requests_per_unit: 2}
`)}), // or envoy.Directory("config")
		Store: core.NewMemory(), // or redisstore.New(…)
	})
	if err != nil {
		fmt.Println(err) // everything that is wrong with the files
		return
	}
	stop := server.Watch(context.Background()) // changes of the files
	defer stop()

	g := grpc.NewServer()
	server.Register(g) // and grpc.health.v1
	defer g.Stop()     // after g.Serve(listener)

	for range 3 {
		response, err := server.ShouldRateLimit(context.Background(), &rls.RateLimitRequest{
			Domain: "edge",
			Descriptors: []*ratelimit.RateLimitDescriptor{{
				Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.1"}},
			}},
		})
		fmt.Println(response.GetOverallCode(), response.GetStatuses()[0].GetLimitRemaining(), err)
	}
	// Output:
	// OK 1 <nil>
	// OK 0 <nil>
	// OVER_LIMIT 0 <nil>
}

// A file that is refused says where, and what was probably meant.
func ExampleError() {
	_, err := envoy.New(envoy.Config{Store: core.NewMemory(), Source: envoy.Files(policy.File{Name: "edge.yaml", Text: []byte(`domain: edge
descriptors:
  - key: remote_address
    rate_limit:
      unit: minutes
      request_per_unit: 2
`)})})
	fmt.Println(err)
	// Output:
	// weblimit: envoy: edge.yaml:4:5: descriptors[0].rate_limit: rate_limit needs requests_per_unit; 0 denies everything
	// edge.yaml:5:13: descriptors[0].rate_limit.unit: unknown unit "minutes"; did you mean "minute"?; units are second, minute, hour, day, week, month, year
	// edge.yaml:6:7: descriptors[0].rate_limit.request_per_unit: rate_limit has no field "request_per_unit"; did you mean "requests_per_unit"?
}

// Counters by the names that dashboards for envoyproxy/ratelimit ask for.
func ExampleServer_Hits() {
	server, err := envoy.New(envoy.Config{Store: core.NewMemory(), Source: envoy.Files(policy.File{Name: "edge.yaml", Text: []byte(`
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {unit: year, requests_per_unit: 2}
`)})})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		_, _ = server.ShouldRateLimit(context.Background(), &rls.RateLimitRequest{
			Domain: "edge",
			Descriptors: []*ratelimit.RateLimitDescriptor{{
				Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.1"}},
			}},
		})
	}
	fmt.Printf("%+v\n", server.Hits()["edge.remote_address"])
	// Output:
	// {Total:3 Within:2 Near:1 Over:1 Shadow:0}
}
