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
	text, err := os.ReadFile("../../../deploy/envoy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	config := new(bootstrap.Bootstrap)
	if err := protojson.Unmarshal(asJSON, config); err != nil {
		t.Fatal(err)
	}
	if err := config.ValidateAll(); err != nil {
		t.Error(err)
	}
}

// The limits beside it are for the descriptors that Envoy sends.
func TestDeployedLimits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../deploy/envoy/edge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	store, now := core.NewMemory(), time.Now().UnixMicro()
	testclock.Set(store, func() int64 { return now }) // no minute ends between two requests
	s, err := envoy.New(envoy.Config{Source: envoy.Files(policy.File{Name: "edge.yaml", Text: text}), Store: store})
	if err != nil {
		t.Fatal(err)
	}
	login := &rls.RateLimitRequest{Domain: "edge", Descriptors: parse("remote_address=192.0.2.1", "action=login,remote_address=192.0.2.1")}
	for i := range 6 {
		r, err := s.ShouldRateLimit(t.Context(), login)
		if err != nil || (r.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT) != (i == 5) {
			t.Errorf("login %d: %v, %v", i+1, r, err)
		}
	}
}
