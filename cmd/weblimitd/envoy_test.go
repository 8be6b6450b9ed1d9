package main_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/internal/test/check"
	windows "github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/redissource"
)

const edge = "domain: edge\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: hour, requests_per_unit: 3}\n"

// envoyFolder is a folder with a file of envoyproxy/ratelimit.
func envoyFolder(t *testing.T) string {
	t.Helper()
	return filepath.Dir(write(t, "edge.yaml", edge))
}

func connect(t *testing.T, addr string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn := must.Get(grpc.NewClient(addr, grpc.WithTransportCredentials(creds)))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// asks sends what Envoy sends.
func asks(ctx context.Context, conn *grpc.ClientConn, address string) (rls.RateLimitResponse_Code, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: address}},
		}},
	})
	return answer.GetOverallCode(), err
}

// Envoy is served over gRPC and JSON by the files of envoyproxy/ratelimit, which change while it serves.
func TestEnvoy(t *testing.T) {
	t.Parallel()
	dir := envoyFolder(t)
	// What watches its health hears that it drains before it is ended.
	in := start(t, nil, "--envoy-config", dir, "--grpc-listen", "127.0.0.1:0", "--drain-delay", "1s")
	conn := connect(t, in.grpc, insecure.NewCredentials())
	windows.AwayFrom(time.Hour, 2*time.Minute)
	over := 0
	for range 5 {
		code := must.Get(asks(t.Context(), conn, "192.0.2.1"))(t)
		if code == rls.RateLimitResponse_OVER_LIMIT {
			over++
		}
	}
	check.Equal(t, "of 5 over the limit of 3", over, 2)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+in.data+"/json",
		strings.NewReader(`{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"192.0.2.1"}]}]}`))
	if code, body, err := ask(http.DefaultClient, r); code != http.StatusTooManyRequests || err != nil {
		t.Errorf("/json: %d %s %v", code, body, err)
	}
	check.Equal(t, "/healthcheck", status(t, http.DefaultClient, "http://"+in.data+"/healthcheck"), http.StatusOK)
	if _, text := in.get(t, "/metrics/envoy"); !strings.Contains(text, `ratelimit_service_rate_limit_over_limit{domain="edge",key1="remote_address"}`) {
		t.Errorf("statistics: %s", text)
	}
	check.Equal(t, "calls", in.metric(t, `weblimitd_grpc_duration_seconds_count{code="OK"}`), "5")
	rewrite(t, filepath.Join(dir, "edge.yaml"), strings.Replace(edge, "3}", "30}", 1))
	in.signal(t, syscall.SIGHUP)
	wait.Until(t, "the new limit decides", func() bool {
		code, err := asks(t.Context(), conn, "192.0.2.1")
		return err == nil && code == rls.RateLimitResponse_OK
	})
	rewrite(t, filepath.Join(dir, "edge.yaml"), strings.Replace(edge, "hour", "hours", 1))
	fails(t, "hour")(run(t, nil, "reload", in.admin))
	_, shown := in.get(t, "/status")
	wants(t, shown, `"envoy": {`, `"domains": 1`, `"refused": 1`)

	health := healthpb.NewHealthClient(conn)
	watch := must.Get(health.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"}))(t)
	state := func() healthpb.HealthCheckResponse_ServingStatus {
		t.Helper()
		answer := must.Get(watch.Recv())(t)
		return answer.GetStatus()
	}
	check.Equal(t, "health", state(), healthpb.HealthCheckResponse_SERVING)
	in.signal(t, syscall.SIGTERM)
	check.Equal(t, "health while it drains", state(), healthpb.HealthCheckResponse_NOT_SERVING)
	// The watch does not hold the drain up.
	if code := in.exit(t); code != 0 { // it is 1 if something was cut off after --drain-timeout
		t.Errorf("exit code %d", code)
	}
}

// Envoy needs no policy file; without its files there is no gRPC.
func TestEnvoyAlone(t *testing.T) {
	t.Parallel()
	dir := envoyFolder(t)
	passes(t, "")(inside(nil, "--check", "--envoy-config", dir))
	fails(t, "--grpc-listen is for Envoy")(inside(nil, "--check", "--policy", write(t, "limits.yaml", onePolicy("1", 5)), "--grpc-listen", ":9182"))
	fails(t, "--grpc-listen: everybody on the network")(run(t, nil, "--envoy-config", dir, "--listen", "127.0.0.1:0", "--admin-listen", "off", "--grpc-listen", "0.0.0.0:0"))
	must.OK(t, os.WriteFile(filepath.Join(dir, "wrong.yaml"), []byte("domain: x\ndescriptors: 5"), 0o600))
	fails(t, "wrong.yaml")(inside(nil, "--check", "--envoy-config", dir))
}

// Files can be published in Redis, and what Go programs set is set by flags.
func TestEnvoysFileInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	source := redissource.New(server.Client(t), "edge")
	publish := func(text string) {
		t.Helper()
		must.Get(source.Add(t.Context(), policy.File{Name: "edge.yaml", Text: []byte(text)}, policy.Release{}, -1))(t)
	}
	publish(edge)
	windows.AwayFrom(time.Hour, 2*time.Minute)
	in := start(t, nil, "--envoy-config", "redis:edge", "--grpc-listen", "127.0.0.1:0", "--redis", "redis://"+server.Addr(),
		"--envoy-limit-headers", "--envoy-limit-header", "X-Limit", "--envoy-remaining-header", "X-Left", "--envoy-reset-header", "X-Reset",
		"--envoy-near-limit", "0.34", "--envoy-max-descriptors", "1", "--envoy-max-entries", "1", "--envoy-max-series", "1", "--envoy-timeout", "1m")
	conn := connect(t, in.grpc, insecure.NewCredentials())
	one := &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: "192.0.2.9"}}}
	client := rls.NewRateLimitServiceClient(conn)
	call := func(descriptors ...*ratelimit.RateLimitDescriptor) (*rls.RateLimitResponse, error) {
		return client.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors})
	}
	for range 3 {
		answer := must.Get(call(one))(t)
		var names []string
		for _, h := range answer.GetResponseHeadersToAdd() {
			names = append(names, h.GetKey())
		}
		check.Equal(t, "headers", strings.Join(names, " "), "X-Limit X-Left X-Reset")
	}
	_, text := in.get(t, "/metrics/envoy")
	wants(t, text, `ratelimit_service_rate_limit_near_limit{domain="edge",key1="remote_address"} 2`) // of those above 1
	wide := &ratelimit.RateLimitDescriptor{Entries: append(slices.Clone(one.GetEntries()), one.GetEntries()...)}
	for name, err := range map[string]error{"descriptors": check.ErrorOf(call(one, one)), "entries": check.ErrorOf(call(wide))} {
		check.Equal(t, "more "+name, grpcstatus.Code(err), codes.InvalidArgument)
	}
	publish(strings.Replace(edge, "3}", "30}", 1))
	wait.Until(t, "the new limit decides", func() bool {
		code, err := asks(t.Context(), conn, "192.0.2.9")
		return err == nil && code == rls.RateLimitResponse_OK
	})
}

// A file of Envoy is published after the check that instances make, with their settings.
func TestAFileOfEnvoyIsPublished(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	settings := []string{"--envoy-config", "redis:edge", "--redis", "redis://" + server.Addr()}
	publish := func(file string, also ...string) (int, string) {
		return inside(nil, slices.Concat([]string{"publish", file}, settings, also)...)
	}
	wrong := write(t, "edge.yaml", strings.Replace(edge, "hour", "hours", 1))
	fails(t, `unknown unit "hours"`)(publish(wrong))
	fails(t, "publish FILE")(inside(nil, append([]string{"publish"}, settings...)...))
	good := write(t, "edge.yaml", edge)
	fails(t, `does not end with the line "..."`)(publish(good, "--end-mark"))
	fails(t, "redis:KEY or postgres:NAME")(inside(nil, "publish", good, "--envoy-config", filepath.Dir(good)))
	fails(t, "nothing was published")(publish(write(t, "limits.yaml", onePolicy("1", 5))))
	if _, err := redissource.New(server.Client(t), "edge").Load(t.Context()); err == nil {
		t.Fatal("something was published")
	}

	passes(t, "redis:edge: release 1, ")(publish(good))
	passes(t, "redis:edge: release 1, ")(publish(good)) // the same is no new one
	windows.AwayFrom(time.Hour, 2*time.Minute)
	in := start(t, nil, append(settings, "--grpc-listen", "127.0.0.1:0")...)
	conn := connect(t, in.grpc, insecure.NewCredentials())
	for range 3 {
		check.Equal(t, "the limit of 3", must.Get(asks(t.Context(), conn, "192.0.2.9"))(t), rls.RateLimitResponse_OK)
	}
	check.Equal(t, "above it", must.Get(asks(t.Context(), conn, "192.0.2.9"))(t), rls.RateLimitResponse_OVER_LIMIT)
	passes(t, "redis:edge: release 2, ")(publish(write(t, "edge.yaml", strings.Replace(edge, "3}", "30}", 1))))
	wait.Until(t, "the new limit decides", func() bool {
		code, err := asks(t.Context(), conn, "192.0.2.9")
		return err == nil && code == rls.RateLimitResponse_OK
	})
}

// Over gRPC, too, callers need a token and a certificate where these are asked for.
func TestEnvoyIsACaller(t *testing.T) {
	t.Parallel()
	by := authority(t, "ca")
	f, envoy := certificate(t, by, "localhost"), certificate(t, by, "envoy.example")
	in := start(t, []string{"WEBLIMIT_TOKENS=0123456789abcdef"}, "--envoy-config", envoyFolder(t), "--grpc-listen", "0.0.0.0:0",
		"--tls-cert", f.cert, "--tls-key", f.key, "--tls-client-ca", f.ca, "--tls-client-names", "envoy.example")
	addr := "localhost:" + in.grpc[strings.LastIndexByte(in.grpc, ':')+1:]
	secure := func(certs ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{RootCAs: by.pool(), Certificates: certs})
	}
	conn := connect(t, addr, secure(envoy.pair(t)))
	if _, err := asks(t.Context(), conn, "192.0.2.1"); grpcstatus.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	if _, err := asks(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer 0123456789abcdef"), conn, "192.0.2.1"); err != nil {
		t.Errorf("with a token: %v", err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health needs a token: %v", err)
	}
	for name, creds := range map[string]credentials.TransportCredentials{
		"no certificate": secure(), "another name": secure(certificate(t, by, "app.example").pair(t)), "no TLS": insecure.NewCredentials(),
	} {
		if _, err := asks(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer 0123456789abcdef"), connect(t, addr, creds), "192.0.2.1"); grpcstatus.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another authority takes the place of this one: the connection that is open is let in no more.
	must.OK(t, os.Rename(certificate(t, authority(t, "another"), "x").ca, f.ca))
	in.signal(t, syscall.SIGHUP)
	wait.Until(t, "the open connection is refused", func() bool {
		_, err := asks(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer 0123456789abcdef"), conn, "192.0.2.1")
		return strings.Contains(fmt.Sprint(err), "not let in any more")
	})
}

// A caller without a token is refused before it has sent a message: or whoever can connect would have the
// service read a megabyte for each call.
func TestATokenIsAskedForBeforeTheMessage(t *testing.T) {
	t.Parallel()
	in := start(t, []string{"WEBLIMIT_TOKENS=0123456789abcdef"}, "--envoy-config", envoyFolder(t), "--grpc-listen", "127.0.0.1:0")
	conn := connect(t, in.grpc, insecure.NewCredentials())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream := must.Get(conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, rls.RateLimitService_ShouldRateLimit_FullMethodName))(t)
	check.Equal(t, "a call that has sent no message", grpcstatus.Code(stream.RecvMsg(new(rls.RateLimitResponse))), codes.Unauthenticated)
	check.Equal(t, "refused calls", in.metric(t, `weblimitd_unauthenticated_total{listener="grpc"}`), "1")
}

// A connection ends after a time, or all calls would stay with the instances that were there when Envoy
// connected. No call is lost by it.
func TestConnectionsOfGRPCHaveAnAge(t *testing.T) {
	t.Parallel()
	in := start(t, nil, "--envoy-config", envoyFolder(t), "--grpc-listen", "127.0.0.1:0", "--grpc-max-age", "1s")
	conn := connect(t, in.grpc, insecure.NewCredentials())
	var calls sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	calls.Go(func() {
		for ctx.Err() == nil {
			if _, err := asks(context.WithoutCancel(ctx), conn, "192.0.2.1"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wait.Until(t, "there is a connection", func() bool { return conn.GetState() == connectivity.Ready })
	if !conn.WaitForStateChange(t.Context(), connectivity.Ready) {
		t.Error("the connection stays")
	}
	stop()
	calls.Wait()
}

// Beyond max-in-flight, calls are refused at once; a drain under load loses none.
func TestEnvoyUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	in := start(t, nil, "--envoy-config", envoyFolder(t), "--grpc-listen", "127.0.0.1:0", "--redis", "redis://"+server.Addr(), "--max-in-flight", "2", "--envoy-timeout", "100ms")
	conn := connect(t, in.grpc, insecure.NewCredentials())
	var ok, refused, other atomic.Int64
	server.Freeze(t)
	wait.Until(t, "some calls are answered, and others refused", func() bool {
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				_, err := asks(t.Context(), conn, "192.0.2.1")
				switch grpcstatus.Code(err) {
				case codes.OK:
					ok.Add(1)
				case codes.ResourceExhausted:
					refused.Add(1)
				default:
					other.Add(1)
					t.Error(err)
				}
			})
		}
		all.Wait()
		return refused.Load() > 0 && ok.Load() > 0 || other.Load() > 0
	})
	server.Thaw(t)

	in = start(t, nil, "--envoy-config", envoyFolder(t), "--grpc-listen", "127.0.0.1:0")
	second := start(t, nil, "--envoy-config", envoyFolder(t), "--grpc-listen", "127.0.0.1:0")
	ctx, stop := context.WithCancel(t.Context())
	var served atomic.Int64
	var load sync.WaitGroup
	one, two := connect(t, in.grpc, insecure.NewCredentials()), connect(t, second.grpc, insecure.NewCredentials())
	for range 8 {
		load.Go(func() {
			to := one
			for ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond) // more than some thousand a second finds nothing more
				_, err := asks(context.WithoutCancel(ctx), to, "192.0.2.1")
				if grpcstatus.Code(err) == codes.Unavailable && to == one && strings.Contains(err.Error(), "connection error") {
					to = two // it has ended: no connection could be made, and so nothing was lost on one
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
			}
		})
	}
	wait.Until(t, "calls are served", func() bool { return served.Load() > 100 })
	check.Equal(t, "exit code", in.stop(t), 0)
	before := served.Load()
	wait.Until(t, "calls go on", func() bool { return served.Load() > before+10 })
	stop()
	load.Wait()
}

// Health needs no token, so nobody may hold any number of streams by it, or keep others from checking it.
func TestWatchesOfHealthAreBounded(t *testing.T) {
	t.Parallel()
	in := start(t, []string{"WEBLIMIT_TOKENS=0123456789abcdef"}, "--envoy-config", envoyFolder(t), "--grpc-listen", "127.0.0.1:0")
	const most = 1024
	refused := make(chan bool, 2*most)
	for range 6 { // of which each has 256 streams at most
		client := healthpb.NewHealthClient(connect(t, in.grpc, insecure.NewCredentials()))
		for range 250 {
			go func() {
				watch, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
				if err == nil {
					_, err = watch.Recv()
				}
				refused <- grpcstatus.Code(err) == codes.ResourceExhausted
			}()
		}
	}
	n := 0
	for range 6 * 250 {
		if <-refused {
			n++
		}
	}
	if n != 6*250-most {
		t.Errorf("%d of %d streams were refused, want all but %d", n, 6*250, most)
	}
	if _, err := healthpb.NewHealthClient(connect(t, in.grpc, insecure.NewCredentials())).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("a check meanwhile: %v", err)
	}
}
