package envoy

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// Envoy's configuration in deploy/envoy has only fields that Envoy knows, with values that it allows.
func TestEnvoyConfiguration(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../deploy/envoy/envoy.yaml"))(t)
	var fields map[string]any
	must.OK(t, yaml.Unmarshal(text, &fields))
	asJSON := must.Get(json.Marshal(fields))(t)
	config := new(bootstrap.Bootstrap)
	must.OK(t, protojson.Unmarshal(asJSON, config))
	check.OK(t, config.ValidateAll())
}

// The limits beside it are for the descriptors that Envoy sends.
func TestDeployedLimits(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../../deploy/envoy/limits/edge.yaml"))(t)
	store, now := core.NewMemory(), time.Now().UnixMicro()
	testclock.Set(store, func() int64 { return now }) // no minute ends between two requests
	s := must.Get(envoy.New(envoy.Config{Source: envoy.Files(policy.File{Name: "edge.yaml", Text: text}), Store: store}))(t)
	login := &rls.RateLimitRequest{Domain: "edge", Descriptors: parse("remote_address=192.0.2.1", "action=login,remote_address=192.0.2.1")}
	for i := range 6 {
		r, err := s.ShouldRateLimit(t.Context(), login)
		if err != nil || (r.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT) != (i == 5) {
			t.Errorf("login %d: %v, %v", i+1, r, err)
		}
	}
}
