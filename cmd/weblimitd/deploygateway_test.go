package main_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// envoyGateway are those fields of Envoy Gateway's settings (v1alpha1) that deploy/envoy/envoy-gateway.yaml has.
type envoyGateway struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Gateway    struct {
		ControllerName string `yaml:"controllerName"`
	}
	Provider struct {
		Type       string
		Kubernetes struct {
			RateLimitDeployment struct {
				Replicas  int
				Container struct {
					Image     string
					Env       []struct{ Name, Value string }
					Resources map[string]map[string]string
				}
			} `yaml:"rateLimitDeployment"`
		}
	}
	RateLimit struct {
		Backend struct {
			Type  string
			Redis struct{ URL string }
		}
	} `yaml:"rateLimit"`
}

// networkPolicy says who may reach the service.
type networkPolicy struct {
	Spec struct {
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		Ingress []struct {
			From  []map[string]any
			Ports []struct{ Port int }
		}
	}
}

// What Envoy Gateway is told starts the service with settings that are taken, and nobody else reaches ports where
// callers need neither a token nor a certificate.
func TestEnvoyGatewayIsDeployed(t *testing.T) {
	t.Parallel()
	file := must.Get(os.ReadFile(deployEnvoy + "envoy-gateway.yaml"))(t)
	first, second, _ := bytes.Cut(file, []byte("\n---\n"))
	var settings struct {
		Metadata struct{ Name, Namespace string }
		Data     map[string]string
	}
	must.OK(t, yaml.Unmarshal(first, &settings))
	check.Equal(t, "where Envoy Gateway reads it", settings.Metadata.Namespace+"/"+settings.Metadata.Name, "envoy-gateway-system/envoy-gateway-config")
	var gateway envoyGateway
	decoder := yaml.NewDecoder(strings.NewReader(settings.Data["envoy-gateway.yaml"]))
	decoder.KnownFields(true)
	must.OK(t, decoder.Decode(&gateway))
	check.Equal(t, "kind", gateway.APIVersion+" "+gateway.Kind+" "+gateway.Provider.Type, "gateway.envoyproxy.io/v1alpha1 EnvoyGateway Kubernetes")
	check.Equal(t, "backend", gateway.RateLimit.Backend.Type, "Redis")
	service := gateway.Provider.Kubernetes.RateLimitDeployment
	check.Equal(t, "image", service.Container.Image, "weblimitd:latest")

	pem := certificate(t, authority(t, "ca"), "localhost")
	env := ofEnvoyGateway(pem, envoyFolder(t), gateway.RateLimit.Backend.Redis.URL)
	for _, e := range service.Container.Env {
		env = append(env, e.Name+"="+e.Value)
		if e.Name == "WEBLIMIT_REPLICAS" {
			check.Equal(t, "replicas", e.Value, fmt.Sprint(service.Replicas))
		}
	}
	passes(t, "REDIS_URL: --redis redis://redis.redis.svc.cluster.local:6379\n")(asRatelimit(env, "--check"))

	var policy networkPolicy
	must.OK(t, yaml.Unmarshal(second, &policy))
	check.Equal(t, "pods of the service", policy.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"], "envoy-ratelimit")
	var open []int
	for _, rule := range policy.Spec.Ingress {
		if len(rule.From) == 0 {
			t.Errorf("everybody reaches %v", rule.Ports)
		}
		for _, p := range rule.Ports {
			open = append(open, p.Port)
		}
	}
	check.Slices(t, "ports that somebody reaches: gRPC and metrics", open, []int{8081, 19001})
}
