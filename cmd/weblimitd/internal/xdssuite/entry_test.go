package xdssuite

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// ofDeployment is the environment of Envoy Gateway's rate limit service, as testdata/deployments/default.yaml of its
// internal/infrastructure/kubernetes/ratelimit has it (July 2026): in its order, with the folder of its certificates and
// the addresses of its control plane and of Redis.
func ofDeployment(certs, plane, redis string) []string {
	return []string{
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info", "USE_STATSD=false",
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + plane, "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + certs + "/tls.crt", "GRPC_SERVER_TLS_KEY=" + certs + "/tls.key", "GRPC_SERVER_TLS_CA_CERT=" + certs + "/ca.crt",
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + certs + "/tls.crt", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + certs + "/tls.key",
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + certs + "/ca.crt", "FORCE_START_WITHOUT_INITIAL_CONFIG=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis,
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=:19001", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
	}
}

// Started as Envoy Gateway starts envoyproxy/ratelimit, it takes its limits from the control plane, answers Envoy, and is
// healthy before there are limits.
func TestAsEnvoyGatewayStartsIt(t *testing.T) {
	t.Parallel()
	_, ca := pair(t, nil, nil, "ca")
	by := ca.PrivateKey.(*ecdsa.PrivateKey)
	_, ofPlane := pair(t, ca.Leaf, by, "localhost")
	certs, _ := pair(t, ca.Leaf, by, "envoy-ratelimit")
	_, ofEnvoy := pair(t, ca.Leaf, by, "envoy")
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	p := startPlane(t, "", grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{ofPlane}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})))
	_, port, err := net.SplitHostPort(p.addr)
	must.OK(t, err)
	server := redistest.StartTCP(t)

	link := filepath.Join(t.TempDir(), "ratelimit")
	must.OK(t, os.Symlink(must.Get(binary())(t), link))
	cmd := exec.Command(link)
	// Ports of this machine, the later of two variables of one name, and less patience than a container has.
	cmd.Env = append(ofDeployment(certs, "localhost:"+port, server.Addr()), "HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0",
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "PROMETHEUS_ADDR=127.0.0.1:0", "LOG_FORMAT=json", "REDIS_TIMEOUT=1m", "WEBLIMIT_DRAIN_DELAY=0s", "WEBLIMIT_ENVOY_XDS_WAIT=100ms")
	s := serve(t, cmd, "", credentials.NewTLS(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{ofEnvoy}, ServerName: "envoy-ratelimit", MinVersion: tls.VersionTLS12}))
	code, _ := get(t, http.DefaultClient, s.data+"/healthcheck")
	check.Equal(t, "/healthcheck without limits", code, http.StatusOK)
	check.Equal(t, "an answer without limits", left(t, s, "a"), -1)
	check.Contains(t, "the log", s.process.Log(), "CONFIG_GRPC_XDS_SERVER_URL: --envoy-config xds:localhost:"+port)

	p.set(t, "1", perUser("edge", 3))
	p.accepts(t, "1")
	check.Equal(t, "the limit", left(t, s, "a"), 2)
	keys := must.Get(server.Client(t).Keys(t.Context(), "weblimit:*").Result())(t)
	check.Equal(t, "clients that are counted in Redis", len(keys) > 0, true)
	wait.Until(t, "metrics are as those of envoyproxy/ratelimit", func() bool {
		_, text := get(t, http.DefaultClient, s.metrics+"/metrics")
		return strings.Contains(text, `ratelimit_service_rate_limit_total_hits{domain="edge",key1="user"} 1`) && strings.Contains(text, "weblimitd_xds_connected 1")
	})
	check.Equal(t, "the folder of its files is passed over", strings.Contains(s.process.Log(), "RUNTIME_ROOT: not needed: a control plane has the limits"), true)
}
