package main_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weblimit/weblimit/internal/test/check"
	windows "github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// ofEnvoyGateway is the environment that Envoy Gateway gives its rate limit service (July 2026), but for paths, ports
// and addresses of this machine, and for its limits, which are files here.
func ofEnvoyGateway(f files, config, redis string) []string {
	return []string{
		"RUNTIME_ROOT=" + filepath.Dir(config), "RUNTIME_SUBDIRECTORY=" + filepath.Base(config), "RUNTIME_APPDIRECTORY=.",
		"RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info", "USE_STATSD=false", "CONFIG_TYPE=FILE",
		"CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001", "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + f.cert, "GRPC_SERVER_TLS_KEY=" + f.key, "GRPC_SERVER_TLS_CA_CERT=" + f.ca,
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis,
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:0", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "LOG_FORMAT=json", "WEBLIMIT_DRAIN_DELAY=0s",
	}
}

// Started as Envoy Gateway starts envoyproxy/ratelimit, it serves what Envoy, probes and Prometheus ask.
func TestAsEnvoyGatewayStartsIt(t *testing.T) {
	t.Parallel()
	by := authority(t, "envoy-gateway")
	service, envoy := certificate(t, by, "envoy-ratelimit"), certificate(t, by, "envoy")
	server := redistest.StartTCP(t)
	cmd := exec.Command(asEntry)
	cmd.Env = append(ofEnvoyGateway(service, envoyFolder(t), server.Addr()), "REDIS_TIMEOUT=1m") // less patience takes a busy machine for an outage
	in := launch(t, cmd)

	windows.AwayFrom(time.Hour, 2*time.Minute)
	with := func(certs ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{RootCAs: by.pool(), Certificates: certs, ServerName: "envoy-ratelimit"})
	}
	conn := connect(t, in.grpc, with(envoy.pair(t)))
	for range 3 {
		check.Equal(t, "of 3", must.Get(asks(t.Context(), conn, "192.0.2.1"))(t), rls.RateLimitResponse_OK)
	}
	check.Equal(t, "above 3", must.Get(asks(t.Context(), conn, "192.0.2.1"))(t), rls.RateLimitResponse_OVER_LIMIT)
	if _, err := asks(t.Context(), connect(t, in.grpc, with()), "192.0.2.1"); err == nil {
		t.Error("who has no certificate of Envoy Gateway is answered")
	}
	if keys := must.Get(server.Client(t).Keys(t.Context(), "weblimit:*").Result())(t); len(keys) == 0 {
		t.Error("nothing is counted in Redis")
	}
	check.Equal(t, "/healthcheck", status(t, http.DefaultClient, "http://"+in.data+"/healthcheck"), http.StatusOK)
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+in.data+"/json",
		strings.NewReader(`{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"192.0.2.1"}]}]}`)))(t)
	code, _, err := ask(http.DefaultClient, r)
	must.OK(t, err)
	check.Equal(t, "/json", code, http.StatusTooManyRequests)
	r = must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+in.metrics+"/metrics", nil))(t)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,text/plain;q=0.5") // as Prometheus does
	_, scraped, err := ask(http.DefaultClient, r)
	must.OK(t, err)
	wants(t, scraped, `ratelimit_service_rate_limit_over_limit{domain="edge",key1="remote_address"} 2`, "weblimitd_store_up 1", `weblimit_decisions_total{decision="denied"`)
	check.Equal(t, "another path of the listener for metrics", status(t, http.DefaultClient, "http://"+in.metrics+"/status"), http.StatusNotFound)
	check.Equal(t, "the debug port", status(t, http.DefaultClient, in.adminURL+"/metrics/envoy"), http.StatusOK)
	wants(t, in.log.String(), "PROMETHEUS_MAPPER_YAML: not read", "GRPC_SERVER_TLS_CA_CERT: --tls-client-ca")
	check.Equal(t, "exit code", in.stop(t), 0)
}

// The ports are those of envoyproxy/ratelimit where nothing says otherwise, and only gRPC has TLS.
func TestPortsUnderTheNameRatelimit(t *testing.T) {
	t.Parallel()
	pem := certificate(t, authority(t, "ca"), "localhost")
	code, out := asRatelimit(append(ratelimitEnv(t), "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+pem.cert, "GRPC_SERVER_TLS_KEY="+pem.key), "--check")
	check.Equal(t, "exit code", code, 0)
	wants(t, out, "--listen 0.0.0.0:8080\n", "--admin-listen 0.0.0.0:6070\n", "--grpc-listen 0.0.0.0:8081\n", "--insecure-listen true\n")
	fails(t, "GRPC_SERVER_USE_TLS does nothing without --tls-cert")(asRatelimit(append(ratelimitEnv(t), "GRPC_SERVER_USE_TLS=true"), "--check"))
	fails(t, "--tls-grpc-only leaves no listener with TLS")(asRatelimit(append(ratelimitEnv(t), "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+pem.cert, "GRPC_SERVER_TLS_KEY="+pem.key), "--check", "--grpc-listen", "off"))
}

// Certificates that callers need over gRPC keep nobody out where there is no TLS.
func TestDataWithoutTLSNeedsAToken(t *testing.T) {
	t.Parallel()
	f := certificate(t, authority(t, "ca"), "localhost")
	args := []string{
		"--envoy-config", envoyFolder(t), "--listen", "0.0.0.0:0", "--admin-listen", "off", "--grpc-listen", "127.0.0.1:0",
		"--tls-cert", f.cert, "--tls-key", f.key, "--tls-client-ca", f.ca, "--tls-grpc-only",
	}
	fails(t, "--listen: everybody on the network")(run(t, nil, args...))
	in := start(t, []string{"WEBLIMIT_TOKENS=0123456789abcdef"}, args...)
	_, port, err := net.SplitHostPort(in.data)
	must.OK(t, err)
	check.Equal(t, "/healthcheck", status(t, http.DefaultClient, "http://127.0.0.1:"+port+"/healthcheck"), http.StatusOK)
	check.Equal(t, "/json without a token", status(t, http.DefaultClient, "http://127.0.0.1:"+port+"/json"), http.StatusUnauthorized)
}

// A health check fails while Redis is away, for those who have told envoyproxy/ratelimit so, and for no others.
func TestHealthcheckKnowsRedis(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	begin := func(also ...string) func() int {
		dir := envoyFolder(t)
		cmd := exec.Command(asEntry)
		cmd.Env = append([]string{
			"RUNTIME_ROOT=" + dir, "RUNTIME_APPDIRECTORY=.", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + server.Addr(), "HOST=127.0.0.1", "PORT=0",
			"GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "LOG_FORMAT=json",
		}, also...)
		in := launch(t, cmd)
		return func() int { return status(t, http.DefaultClient, "http://"+in.data+"/healthcheck") }
	}
	by, without := begin("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true"), begin()
	wait.Until(t, "it is healthy", func() bool { return by() == http.StatusOK })
	server.Kill()
	wait.Until(t, "the health check fails", func() bool { return by() == http.StatusInternalServerError })
	check.Equal(t, "without the variable", without(), http.StatusOK)
	server.Restart(t)
	wait.Until(t, "it is healthy again", func() bool { return by() == http.StatusOK })
}

// An operator's password does not go over the network in the clear because callers of Envoy's service need none.
func TestOperatorsUnderTheNameRatelimit(t *testing.T) {
	t.Parallel()
	dir := envoyFolder(t)
	cmd := exec.Command(asEntry)
	cmd.Env = []string{
		"RUNTIME_ROOT=" + dir, "RUNTIME_APPDIRECTORY=.", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:1", "PORT=0", "GRPC_PORT=0", "DEBUG_PORT=0", "LOG_FORMAT=json",
		"WEBLIMIT_ADMIN_USERS=ops:0123456789abcdef:act",
	}
	in := launch(t, cmd)
	_, port, err := net.SplitHostPort(in.admin)
	must.OK(t, err)
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/status", nil))(t)
	r.SetBasicAuth("ops", "0123456789abcdef")
	code, body, err := ask(http.DefaultClient, r)
	must.OK(t, err)
	check.Equal(t, "a password over the network", code, http.StatusUnauthorized)
	wants(t, body, "over TLS")
	check.Equal(t, "health", status(t, http.DefaultClient, "http://127.0.0.1:"+port+"/readyz"), http.StatusOK)
}

// Traces have the names, and are sent as often, as envoyproxy/ratelimit was told; without a word no trace is sent.
func TestTracesUnderTheNameRatelimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, env string
		sent      bool
	}{
		{"all", "TRACING_ENABLED=true TRACING_SERVICE_NAME=limits-of-edge TRACING_SERVICE_NAMESPACE=edge-system TRACING_SERVICE_INSTANCE_ID=pod-1 TRACING_SAMPLING_RATE=1.0", true},
		{"none of them", "TRACING_ENABLED=true TRACING_SERVICE_NAME=limits-of-edge TRACING_SAMPLING_RATE=0", false},
		{"without a word", "TRACING_SERVICE_NAME=limits-of-edge", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			endpoint, got := collector(t)
			dir := envoyFolder(t)
			cmd := exec.Command(asEntry)
			cmd.Env = append(strings.Fields(tt.env), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "RUNTIME_ROOT="+dir, "RUNTIME_APPDIRECTORY=.", "REDIS_URL=/nowhere.sock",
				"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "LOG_FORMAT=json", "WEBLIMIT_DRAIN_DELAY=0s")
			in := launch(t, cmd)
			r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+in.data+"/json",
				strings.NewReader(`{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"192.0.2.1"}]}]}`)))(t)
			code, _, err := ask(http.DefaultClient, r)
			must.OK(t, err)
			check.Equal(t, "an answer while Redis is away", code, http.StatusOK)
			in.stop(t) // sends what is left
			check.Equal(t, "traces were sent", got.String() != "", tt.sent)
			if tt.sent {
				wants(t, got.String(), "limits-of-edge", "edge-system", "pod-1", "envoy")
			}
		})
	}
}
