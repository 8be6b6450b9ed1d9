package xdssuite

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// binary builds weblimitd, once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "weblimitd")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "weblimitd"), program.Build(dir, "../..", ".")
})

// service is a running weblimitd.
type service struct {
	rls.RateLimitServiceClient

	process   *child.Server
	data      string
	metrics   string
	operators *http.Client // of the admin listener
}

func (s *service) ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return s.RateLimitServiceClient.ShouldRateLimit(ctx, r, grpc.WaitForReady(true))
}

var errStarting = errors.New("it starts")

// start starts weblimitd with settings, and waits until it serves.
func start(t *testing.T, env []string, settings ...string) *service {
	t.Helper()
	admin := filepath.Join(child.Dir(t), "admin.sock")
	cmd := exec.Command(must.Get(binary())(t), append([]string{
		"--listen", "127.0.0.1:0", "--admin-listen", "unix:" + admin, "--grpc-listen", "127.0.0.1:0", "--drain-delay", "0s", "--log-format", "json",
		"--envoy-xds-retry", "10ms", "--envoy-xds-max-retry", "100ms", "--envoy-timeout", "1m",
	}, settings...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	return serve(t, cmd, admin, insecure.NewCredentials())
}

// serve starts a command that is weblimitd, with the socket of operators, and waits until it serves.
func serve(t *testing.T, cmd *exec.Cmd, admin string, creds credentials.TransportCredentials) *service {
	t.Helper()
	cmd.Env = append(cmd.Env, program.Races)
	var line struct{ Msg, Data, GRPC, Metrics string }
	s := &service{operators: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", admin)
	}}}, process: child.Serve(t, cmd, func(written string) error {
		for text := range strings.SplitSeq(written, "\n") {
			if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "weblimitd: serving" {
				return nil
			}
		}
		return errStarting
	})}
	s.data, s.metrics = "http://"+line.Data, "http://"+line.Metrics
	conn := must.Get(grpc.NewClient(line.GRPC, grpc.WithTransportCredentials(creds)))(t)
	t.Cleanup(func() { _ = conn.Close() })
	s.RateLimitServiceClient = rls.NewRateLimitServiceClient(conn)
	return s
}

// get asks for a page.
func get(t *testing.T, by *http.Client, url string) (code int, text string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	response := must.Get(by.Do(request))(t)
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode, string(must.Get(io.ReadAll(response.Body))(t))
}

// has waits until a page of operators has some lines.
func (s *service) has(t *testing.T, path string, lines ...string) {
	t.Helper()
	wait.For(t, path+" has "+strings.Join(lines, ", "), func() error {
		_, text := get(t, s.operators, "http://localhost"+path)
		for _, line := range lines {
			if !strings.Contains(text, line) {
				return errors.New(text)
			}
		}
		return nil
	})
}

// pair writes a certificate for a name, its key and its authority into a folder.
func pair(t *testing.T, by *x509.Certificate, key *ecdsa.PrivateKey, name string) (dir string, made tls.Certificate) {
	t.Helper()
	own := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: by == nil, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if by == nil {
		by, key = template, own
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, by, own.Public(), key))(t)
	dir = t.TempDir()
	for file, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "ca.crt": {Type: "CERTIFICATE", Bytes: by.Raw},
		"tls.key": {Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(own))(t)},
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600))
	}
	return dir, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: own, Leaf: must.Get(x509.ParseCertificate(der))(t)}
}

// weblimitd follows a control plane that asks for a certificate, as that of Envoy Gateway does. It says what it has of it, and what it
// refuses, and goes on without it.
func TestWeblimitd(t *testing.T) {
	t.Parallel()
	_, ca := pair(t, nil, nil, "ca")
	_, ofPlane := pair(t, ca.Leaf, ca.PrivateKey.(*ecdsa.PrivateKey), "envoy-gateway")
	files, _ := pair(t, ca.Leaf, ca.PrivateKey.(*ecdsa.PrivateKey), "envoy-ratelimit")
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	var tokens sync.Map
	options := []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{ofPlane}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12})),
		grpc.StreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			fields, _ := metadata.FromIncomingContext(stream.Context())
			tokens.Store(strings.Join(fields.Get("x-token"), ","), true)
			return handle(server, stream)
		}),
	}
	p := startPlane(t, "", options...)
	p.set(t, "1", perUser("edge", 3))
	settings := []string{
		"--envoy-config", "xds:" + p.addr, "--envoy-xds-tls", "--envoy-xds-cacert", filepath.Join(files, "ca.crt"), "--envoy-xds-cert", filepath.Join(files, "tls.crt"),
		"--envoy-xds-key", filepath.Join(files, "tls.key"), "--envoy-xds-server-name", "envoy-gateway", "--envoy-xds-node-metadata", "zone=a,role=limits", "--envoy-xds-wait", "3m",
	}
	env := []string{"WEBLIMIT_ENVOY_XDS_HEADERS=x-token:s3cret", program.Races}
	cmd := exec.Command(must.Get(binary())(t), append(settings, "--check")...)
	cmd.Env = env
	checked, err := cmd.CombinedOutput()
	must.OK(t, err)
	check.Contains(t, "--check", string(checked), "ok: envoy xds:"+p.addr+": 1 domain, 1 limit")

	s := start(t, env, settings...)
	p.accepts(t, "1")
	check.Equal(t, "the limit", left(t, s, "a"), 2)
	_, sent := tokens.Load("s3cret")
	check.Equal(t, "the header was sent", sent, true)
	p.mu.Lock()
	check.Equal(t, "the node", p.node.GetId(), node)
	check.Equal(t, "its metadata", p.node.GetMetadata().GetFields()["role"].GetStringValue(), "limits")
	p.mu.Unlock()
	s.has(t, "/status", `"xds": {`, `"connected": true`, `"version": "1"`, `"accepted": 1`, `"domains": 1`)
	s.has(t, "/metrics", "weblimitd_xds_connected 1", "weblimitd_xds_accepted_total 1", "weblimitd_xds_refused_total 0", "weblimitd_envoy_domains 1", "weblimitd_envoy_error 0")

	wrong := perUser("edge", 5)
	wrong.Descriptors[0].Key = ""
	p.set(t, "2", wrong)
	p.hears(t, "what is wrong", func(r *discovery.DiscoveryRequest) bool {
		return strings.Contains(r.GetErrorDetail().GetMessage(), "edge:2:1: descriptors[0]: a descriptor needs a key")
	})
	check.Equal(t, "the limit before", left(t, s, "a"), 1)
	s.has(t, "/status", `"refused": 1`, "a descriptor needs a key")
	s.has(t, "/metrics", "weblimitd_envoy_error 1", "weblimitd_xds_refused_total 1")
	s.has(t, "/metrics/envoy", "ratelimit_service_config_load_error 1")
	check.Contains(t, "the log", s.process.Log(), "files refused, the limits before still decide")

	p.set(t, "3", perUser("edge", 9))
	p.accepts(t, "3")
	check.Equal(t, "the new limit", left(t, s, "a"), 6)
	p.stop()
	s.has(t, "/metrics", "weblimitd_xds_connected 0", "weblimitd_envoy_error 0")
	check.Equal(t, "the limit meanwhile", left(t, s, "a"), 5)
	check.Contains(t, "the log", s.process.Log(), "the control plane is away, what decided before goes on")
	again := startPlane(t, p.addr, options...)
	again.set(t, "1", perUser("edge", 5), perUser("other", 1))
	again.accepts(t, "1")
	s.has(t, "/status", `"connected": true`, `"domains": 2`)
	if log := s.process.Log(); strings.Contains(log, "s3cret") {
		t.Errorf("a secret is in the log: %s", log)
	}
	if _, status := get(t, s.operators, "http://localhost/status"); strings.Contains(status, "s3cret") {
		t.Errorf("a secret is in the status: %s", status)
	}
}

// Without policies, and without a control plane, weblimitd serves if it may, and says that it has no limits.
func TestWeblimitdStartsWithoutLimits(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	wanted := []string{"--envoy-config", "xds:" + p.addr, "--envoy-xds-wait", "100ms"}
	cmd := exec.Command(must.Get(binary())(t), append(wanted, "--grpc-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--admin-listen", "off")...)
	refused, err := cmd.CombinedOutput()
	check.Equal(t, "it does not start", err != nil, true)
	check.Contains(t, "why", string(refused), `no configuration from `+p.addr+` for the node "envoy-ratelimit"`)

	s := start(t, nil, append(wanted, "--envoy-start-without-config")...)
	health := func() int {
		code, _ := get(t, http.DefaultClient, s.data+"/healthcheck")
		return code
	}
	check.Equal(t, "/healthcheck", health(), http.StatusOK)
	check.Equal(t, "an answer without limits", left(t, s, "a"), -1)
	s.has(t, "/metrics", "weblimitd_envoy_domains 0", "weblimitd_envoy_error 1")
	check.Contains(t, "the log", s.process.Log(), "started without limits, every request is answered OK until there are good files")
	p.set(t, "1")
	p.accepts(t, "1")
	s.has(t, "/metrics", "weblimitd_envoy_domains 0", "weblimitd_envoy_error 0")
	check.Contains(t, "the log", s.process.Log(), "there are no limits, every request is answered OK")
	p.set(t, "2", perUser("edge", 3))
	p.accepts(t, "2")
	check.Equal(t, "the limit", left(t, s, "a"), 2)

	// Health can also wait for limits.
	p.set(t, "3")
	s = start(t, nil, append(wanted, "--envoy-start-without-config", "--envoy-unhealthy-without-config")...)
	check.Equal(t, "/healthcheck without limits", health(), http.StatusInternalServerError)
	p.set(t, "4", perUser("edge", 3))
	wait.Until(t, "it is healthy", func() bool { return health() == http.StatusOK })
	p.set(t, "5")
	wait.Until(t, "it is healthy no more", func() bool { return health() == http.StatusInternalServerError })
}
