package envoy

import (
	"encoding/json"
	"os"
	"testing"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// patches returns what deploy/istio merges into Envoy's configuration, by what it is merged into.
func patches(t *testing.T) (filter *hcm.HttpFilter, host *route.VirtualHost, login *route.Route) {
	t.Helper()
	var object struct {
		Spec struct {
			ConfigPatches []struct {
				ApplyTo string `yaml:"applyTo"`
				Patch   struct{ Value any }
			} `yaml:"configPatches"`
		}
	}
	must.OK(t, yaml.Unmarshal(must.Get(os.ReadFile("../../../deploy/istio/envoyfilter.yaml"))(t), &object))
	filter, host, login = new(hcm.HttpFilter), new(route.VirtualHost), new(route.Route)
	into := map[string]proto.Message{"HTTP_FILTER": filter, "VIRTUAL_HOST": host, "HTTP_ROUTE": login}
	for _, p := range object.Spec.ConfigPatches {
		must.OK(t, protojson.Unmarshal(must.Get(json.Marshal(p.Patch.Value))(t), into[p.ApplyTo]))
	}
	return filter, host, login
}

// Istio's gateway asks as Envoy of deploy/envoy does: the same filter but for the way to the service, and the same
// descriptors.
func TestIstioAsksAsEnvoy(t *testing.T) {
	t.Parallel()
	filter, host, login := patches(t)
	got := new(ratelimit.RateLimit)
	must.OK(t, filter.GetTypedConfig().UnmarshalTo(got))
	check.OK(t, got.ValidateAll())
	envoy := deployedFilter(t)
	for _, service := range []*ratelimit.RateLimit{got, envoy} {
		service.GetRateLimitService().GetGrpcService().TargetSpecifier = &cluster.GrpcService_EnvoyGrpc_{}
	}
	same(t, "the filter", got, envoy)

	_, others := deployed(t)
	same(t, "the limits of a host", &route.VirtualHost{RateLimits: host.GetRateLimits()}, &route.VirtualHost{RateLimits: others.GetRateLimits()})
	wanted := others.GetRoutes()[0]
	same(t, "the limits of a route", &route.RouteAction{RateLimits: login.GetRoute().GetRateLimits()}, &route.RouteAction{RateLimits: wanted.GetRoute().GetRateLimits()})
	same(t, "what the route has beside", &route.Route{TypedPerFilterConfig: login.GetTypedPerFilterConfig()}, &route.Route{TypedPerFilterConfig: wanted.GetTypedPerFilterConfig()})
}

// deployedFilter returns the filter of deploy/envoy.
func deployedFilter(t *testing.T) *ratelimit.RateLimit {
	t.Helper()
	config, _ := deployed(t)
	manager, filter := new(hcm.HttpConnectionManager), new(ratelimit.RateLimit)
	must.OK(t, config.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(manager))
	must.OK(t, manager.GetHttpFilters()[0].GetTypedConfig().UnmarshalTo(filter))
	return filter
}

func same(t *testing.T, what string, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("%s: got %s, want %s", what, protojson.Format(got), protojson.Format(want))
	}
}
