package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"go.yaml.in/yaml/v3"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/deployed"
	windows "github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/image"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

const deployEnvoy = "../../deploy/envoy/"

// resource is a part of deploy/envoy/kubernetes.yaml.
type resource struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ClusterIP string `yaml:"clusterIP"`
		Ports     []struct {
			Name       string
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Spec struct {
				Containers []struct {
					Env   []struct{ Name, Value string }
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
				}
			}
		}
	}
}

func resources(t *testing.T, all []deployed.Object) map[string]resource {
	t.Helper()
	of := map[string]resource{}
	for _, object := range all {
		var r resource
		must.OK(t, yaml.Unmarshal(must.Get(yaml.Marshal(object))(t), &r))
		of[r.Kind] = r
	}
	return of
}

// every calls use for all fields of a name, however deep.
func every(of any, name string, use func(any)) {
	switch v := of.(type) {
	case map[string]any:
		for key, value := range v {
			if key == name {
				use(value)
			}
			every(value, name, use)
		}
	case []any:
		for _, value := range v {
			every(value, name, use)
		}
	}
}

// asEnvoy is what deploy/envoy/envoy.yaml says of the rate limit service.
type asEnvoy struct {
	host, port, domain string
	metadata           map[string]string
}

func envoyAsks(t *testing.T) asEnvoy {
	t.Helper()
	var config map[string]any
	must.OK(t, yaml.Unmarshal(must.Get(os.ReadFile(deployEnvoy+"envoy.yaml"))(t), &config))
	asks := asEnvoy{metadata: map[string]string{}}
	every(config, "domain", func(v any) { asks.domain = v.(string) })
	every(config, "initial_metadata", func(v any) {
		for _, m := range v.([]any) {
			asks.metadata[m.(map[string]any)["key"].(string)] = m.(map[string]any)["value"].(string)
		}
	})
	every(config, "load_assignment", func(v any) {
		if v.(map[string]any)["cluster_name"] == "weblimit" {
			every(v, "address", func(v any) {
				if host, ok := v.(string); ok {
					asks.host = host
				}
			})
			every(v, "port_value", func(v any) { asks.port = fmt.Sprint(v) })
		}
	})
	return asks
}

// Envoy as it is deployed reaches weblimitd as it is deployed: by name, port and token, with limits for the
// domain that it asks for.
func TestEnvoyIsDeployed(t *testing.T) {
	t.Parallel()
	manifest := objects(t, deployEnvoy+"kubernetes.yaml")
	asks, all := envoyAsks(t), resources(t, manifest)
	service, limits := all["Service"], all["ConfigMap"].Data["edge.yaml"]
	check.Equal(t, "the limits", limits, string(must.Get(os.ReadFile(deployEnvoy+"limits/edge.yaml"))(t)))
	check.Contains(t, "the limits", limits, "domain: "+asks.domain)
	container := all["Deployment"].Spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range container.Env {
		env[e.Name] = e.Value
	}
	check.Equal(t, "the name that Envoy asks for", asks.host, service.Metadata.Name)
	check.Equal(t, "one address for each instance", service.Spec.ClusterIP, "None") // which passes no port on to another
	port := 0
	for _, p := range container.Ports {
		if p.Name == service.Spec.Ports[0].TargetPort {
			port = p.ContainerPort
		}
	}
	check.All(t, "the ports of Envoy, the Service, the container and weblimitd", []any{asks.port, fmt.Sprint(service.Spec.Ports[0].Port), fmt.Sprint(port), env["WEBLIMIT_GRPC_LISTEN"]}, "9182", "9182", "9182", ":9182")
	check.Contains(t, "docs/service/envoy.md", string(must.Get(os.ReadFile("../../docs/service/envoy.md"))(t)), "port "+asks.port)

	// The same environment, but for what is different on this machine.
	const token = "0123456789abcdef0123456789abcdef"
	var variables []string
	for _, e := range deployed.New(t, manifest, deployed.Secrets{"weblimit": {"redis": "redis://" + redistest.StartTCP(t).Addr(), "tokens": token}}).Env {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "WEBLIMIT_ADMIN_LISTEN", "WEBLIMIT_LISTEN", "WEBLIMIT_DRAIN_DELAY": // flags of the test
		case "WEBLIMIT_GRPC_LISTEN":
			variables = append(variables, name+"=0.0.0.0:0")
		default:
			variables = append(variables, e)
		}
	}
	windows.AwayFrom(time.Minute, 20*time.Second)
	in := start(t, variables, "--listen", "off", "--envoy-timeout", "1m")
	_, opened, _ := net.SplitHostPort(in.grpc)
	client := rls.NewRateLimitServiceClient(connect(t, net.JoinHostPort("127.0.0.1", opened), insecure.NewCredentials()))
	login := &rls.RateLimitRequest{Domain: asks.domain, Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "action", Value: "login"}, {Key: "masked_remote_address", Value: "192.0.2.1/32"}},
	}}}
	ctx := t.Context()
	_, err := client.ShouldRateLimit(ctx, login)
	check.Equal(t, "without a token", grpcstatus.Code(err), codes.Unauthenticated)
	for name, value := range asks.metadata {
		ctx = metadata.AppendToOutgoingContext(ctx, name, strings.Replace(value, "TOKEN", token, 1))
	}
	over := 0
	for range 7 {
		if answer := must.Get(client.ShouldRateLimit(ctx, login))(t); answer.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT {
			over++
		}
	}
	check.Equal(t, "of 7 logins over the limit of 5", over, 2)
}

// What is composed has settings that are taken, once the token is one.
func TestEnvoyIsComposed(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Environment map[string]string
			Volumes     []string
		}
	}
	must.OK(t, yaml.Unmarshal(must.Get(os.ReadFile(deployEnvoy+"compose.yaml"))(t), &compose))
	asks := envoyAsks(t)
	weblimit, there := compose.Services[asks.host]
	if !there {
		t.Fatalf("no service is called %s, as Envoy asks for", asks.host)
	}
	from, to, _ := strings.Cut(weblimit.Volumes[0], ":")
	check.Equal(t, "where the limits are", to, weblimit.Environment["WEBLIMIT_ENVOY_CONFIG"]+":ro")
	env := image.Env()
	for name, value := range weblimit.Environment {
		if name == "WEBLIMIT_ENVOY_CONFIG" {
			value = filepath.Join(deployEnvoy, from)
		}
		env = append(env, name+"="+value)
	}
	fails(t, "WEBLIMIT_TOKENS")(inside(env, "--check"))
	for i := range env {
		env[i] = strings.Replace(env[i], "=TOKEN", "=0123456789abcdef", 1)
	}
	passes(t, "")(inside(env, "--check"))
}

// The image serves what it is told to serve: policies, Envoy, or both. Its ports are those of its settings.
func TestSettingsOfTheImage(t *testing.T) {
	t.Parallel()
	env := append(image.Env(), "WEBLIMIT_TOKENS=0123456789abcdef")
	limits, dir := write(t, "limits.yaml", onePolicy("1", 5)), envoyFolder(t)
	passes(t, "")(inside(append(env, "WEBLIMIT_POLICY="+limits), "--check"))
	passes(t, "")(inside(append(env, "WEBLIMIT_ENVOY_CONFIG="+dir), "--check"))
	passes(t, "")(inside(append(env, "WEBLIMIT_ENVOY_CONFIG="+dir, "WEBLIMIT_POLICY="+limits), "--check"))
	fails(t, "nothing to decide by")(inside(env, "--check"))
	var ports []string
	for _, e := range env {
		if _, port, found := strings.Cut(e, "LISTEN=:"); found {
			ports = append(ports, port)
		}
	}
	_, out := asRatelimit(append(image.Env(), ratelimitEnv(t)...), "--check") // whose ports are others, in the same image
	for _, found := range regexp.MustCompile(`by the name ratelimit: --\S+ 0\.0\.0\.0:(\d+)`).FindAllStringSubmatch(out, -1) {
		ports = append(ports, found[1])
	}
	var exposed []string
	for _, port := range image.Ports() {
		exposed = append(exposed, strconv.Itoa(port))
	}
	slices.Sort(ports)
	check.Slices(t, "ports", ports, exposed)
}
