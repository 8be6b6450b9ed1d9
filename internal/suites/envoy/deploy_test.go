package envoy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// deployed returns Envoy's configuration in deploy/envoy, and its routes for an application.
func deployed(t *testing.T) (*bootstrap.Bootstrap, *route.VirtualHost) {
	t.Helper()
	text := must.Get(os.ReadFile("../../../deploy/envoy/envoy.yaml"))(t)
	var fields map[string]any
	must.OK(t, yaml.Unmarshal(text, &fields))
	asJSON := must.Get(json.Marshal(fields))(t)
	config := new(bootstrap.Bootstrap)
	must.OK(t, protojson.Unmarshal(asJSON, config))
	manager := new(hcm.HttpConnectionManager)
	must.OK(t, config.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(manager))
	check.OK(t, manager.ValidateAll())
	return config, manager.GetRouteConfig().GetVirtualHosts()[0]
}

// Envoy's configuration in deploy/envoy has only fields that Envoy knows, with values that it allows.
func TestEnvoyConfiguration(t *testing.T) {
	t.Parallel()
	config, _ := deployed(t)
	check.OK(t, config.ValidateAll())
}

// descriptors returns what Envoy sends for a client, as parse reads it.
func descriptors(t *testing.T, limits []*route.RateLimit, client netip.Addr) (all []string) {
	t.Helper()
	for _, limit := range limits {
		var entries []string
		for _, action := range limit.GetActions() {
			switch a := action.GetActionSpecifier().(type) {
			case *route.RateLimit_Action_GenericKey_:
				entries = append(entries, a.GenericKey.GetDescriptorKey()+"="+a.GenericKey.GetDescriptorValue())
			case *route.RateLimit_Action_MaskedRemoteAddress_:
				bits := int(a.MaskedRemoteAddress.GetV6PrefixMaskLen().GetValue())
				if client.Is4() {
					bits = 32
				}
				entries = append(entries, "masked_remote_address="+must.Get(client.Prefix(bits))(t).String())
			default:
				t.Errorf("an action of another kind: %v", action)
			}
		}
		all = append(all, strings.Join(entries, ","))
	}
	return all
}

// Other spellings of a path are the path, and other addresses of a client are the client.
func TestDeployedRoutes(t *testing.T) {
	t.Parallel()
	_, host := deployed(t)
	login := host.GetRoutes()[0]
	matches := regexp.MustCompile("^(?:" + login.GetMatch().GetSafeRegex().GetRegex() + ")$")
	for path, want := range map[string]bool{
		"/login": true, "/login/": true, "/LOGIN": true, "/login;x": true, "/login/x": true, "/loginx": false, "/log": false, "/x/login": false, "/": false,
	} {
		check.Equal(t, path, matches.MatchString(path), want)
	}
	of := func(client string) string {
		return fmt.Sprint(descriptors(t, append(host.GetRateLimits(), login.GetRoute().GetRateLimits()...), netip.MustParseAddr(client)))
	}
	check.Equal(t, "another address of a client", of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::2"))
	if of("2001:db8:1:2::1") == of("2001:db8:1:3::1") || of("192.0.2.1") == of("192.0.2.2") {
		t.Error("two clients are one")
	}
}

// The limits beside it are for the descriptors that Envoy sends.
func TestDeployedLimits(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../deploy/envoy/limits/edge.yaml"))(t)
	store, now := core.NewMemory(), time.Now().UnixMicro()
	testclock.Set(store, func() int64 { return now }) // no minute ends between two requests
	s := must.Get(envoy.New(envoy.Config{Source: envoy.Files(policy.File{Name: "edge.yaml", Text: text}), Store: store}))(t)
	_, host := deployed(t)
	sent := descriptors(t, append(host.GetRateLimits(), host.GetRoutes()[0].GetRoute().GetRateLimits()...), netip.MustParseAddr("192.0.2.1"))
	login := &rls.RateLimitRequest{Domain: "edge", Descriptors: parse(sent...)}
	for i := range 6 {
		r, err := s.ShouldRateLimit(t.Context(), login)
		if err != nil || (r.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT) != (i == 5) {
			t.Errorf("login %d: %v, %v", i+1, r, err)
		}
	}
}
