//go:build linux

package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/client"
)

// way is a place where a limiter can live: how to ask it, and who works then beside the caller.
type way struct {
	name   string
	checks int // per call
	ask    func(ctx context.Context, key int) error
	served []process // the services
}

// batch is the number of checks of a call to /v1/checks.
const batch = 16

// limit is that of policyFile.
func limit() core.Limit { return limitOf(keyfuncs.ClientIP()) }

func limitOf(key keyfuncs.Func) core.Limit {
	return core.PerHour(4_000_000_000).FixedWindow().By(key).Named("client")
}

// quiet drops what go-redis logs.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// keys are made before the measurement.
var keys = func() (all [100_000]string) {
	for i := range all {
		all[i] = "user:" + strconv.Itoa(i)
	}
	return all
}()

// ways returns the ways to a limit on a Redis. The first one is what the others are compared with.
func ways(t *testing.T, server *redistest.Server) []way {
	t.Helper()
	redis.SetLogger(quiet{})
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	onRedis := "redis://" + server.Addr()
	tcp := startDaemon(t, "127.0.0.1:0", "--redis", onRedis)
	socket := filepath.Join(child.Dir(t), "s")
	unix := startDaemon(t, "unix:"+socket, "--redis", onRedis)
	memory := startDaemon(t, "127.0.0.1:0")
	envoys, peers := startPeer(t, server)
	least := startLeast(t, server.Addr())

	return []way{
		{"library, on Redis", 1, decide(core.Must(core.New(core.Config{
			Store: redisstore.New(rdb, redisstore.Config{Prefix: "library:"}), Limits: []core.Limit{limit()}, Timeout: time.Minute,
		}))), nil},
		{"library, in memory", 1, decide(core.Must(core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{limit()}}))), nil},
		{"weblimitd, Go client", 1, remote(t, "http://"+tcp.data), []process{tcp.process}},
		{"weblimitd, Go client, unix socket", 1, remote(t, "unix://"+socket), []process{unix.process}},
		{"weblimitd, `/v1/check`", 1, single(t, "tcp", tcp.data), []process{tcp.process}},
		{"weblimitd, `/v1/check`, unix socket", 1, single(t, "unix", socket), []process{unix.process}},
		{"weblimitd in memory, `/v1/check`", 1, single(t, "tcp", memory.data), []process{memory.process}},
		{fmt.Sprintf("weblimitd, `/v1/checks` of %d", batch), batch, batches(t, tcp.data), []process{tcp.process}},
		{"weblimitd, Envoy's gRPC", 1, rateLimit(dial(t, tcp.grpc)), []process{tcp.process}},
		{"envoyproxy/ratelimit, gRPC", 1, rateLimit(envoys), []process{peers}},
		{"least HTTP server, decides nothing", 1, single(t, "tcp", least.web), []process{least.process}},
		{"least gRPC server, decides nothing", 1, rateLimit(dial(t, least.envoy)), []process{least.process}},
		{"least HTTP server, counts in Redis", 1, single(t, "tcp", least.webRedis), []process{least.process}},
		{"least gRPC server, counts in Redis", 1, rateLimit(dial(t, least.envoyRedis)), []process{least.process}},
	}
}

// decide asks a limiter in this process, which may itself ask a service.
func decide(l *core.Limiter) func(context.Context, int) error {
	return func(ctx context.Context, key int) error {
		d := l.AllowKey(ctx, keys[key], 1)
		if d.Reason != core.ReasonWithinLimit {
			return fmt.Errorf("%v: %w", d.Reason, d.Err)
		}
		return nil
	}
}

func remote(t *testing.T, url string) func(context.Context, int) error {
	t.Helper()
	c := must.Get(client.New(client.Config{URL: url, Timeout: time.Minute, OnOutage: client.OnOutage{Action: core.Deny}}))(t)
	t.Cleanup(c.Close)
	l := must.Get(c.Limiter(core.Config{Store: c.Store()}, "api"))(t)
	return decide(l)
}

// dialing returns a transport that keeps as many connections as there are callers.
func dialing(network, addr string) *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
}

// post sends a body to a service, and returns its answer.
func post(ctx context.Context, c *http.Client, path string, body []byte) (answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if answer, err = io.ReadAll(response.Body); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return answer, err
}

func single(t *testing.T, network, addr string) func(context.Context, int) error {
	t.Helper()
	c := &http.Client{Transport: dialing(network, addr)}
	t.Cleanup(c.CloseIdleConnections)
	return func(ctx context.Context, key int) error {
		answer, err := post(ctx, c, "/v1/check", fmt.Appendf(nil, `{"policy":"api","key":%q}`, keys[key]))
		if err == nil && !bytes.Contains(answer, []byte(`"reason":"within limit"`)) {
			err = fmt.Errorf("%s", answer)
		}
		return err
	}
}

func batches(t *testing.T, addr string) func(context.Context, int) error {
	t.Helper()
	c := &http.Client{Transport: dialing("tcp", addr)}
	t.Cleanup(c.CloseIdleConnections)
	return func(ctx context.Context, key int) error {
		body := []byte(`{"checks":[`)
		for i := range batch {
			if i > 0 {
				body = append(body, ',')
			}
			at := 0
			if key > 0 {
				at = (key + i) % len(keys)
			}
			body = fmt.Appendf(body, `{"policy":"api","key":%q}`, keys[at])
		}
		answer, err := post(ctx, c, "/v1/checks", append(body, "]}"...))
		if err == nil && bytes.Count(answer, []byte(`"reason":"within limit"`)) != batch {
			err = fmt.Errorf("%s", answer)
		}
		return err
	}
}

func rateLimit(c rls.RateLimitServiceClient) func(context.Context, int) error {
	return func(ctx context.Context, key int) error {
		answer, err := c.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", Descriptors: []*corev3.RateLimitDescriptor{
			{Entries: []*corev3.RateLimitDescriptor_Entry{{Key: "user", Value: keys[key]}}},
		}})
		if err == nil && (answer.GetOverallCode() != rls.RateLimitResponse_OK || answer.GetStatuses()[0].GetCurrentLimit() == nil) {
			err = errors.New(answer.String())
		}
		return err
	}
}

func dial(t testing.TB, addr string) rls.RateLimitServiceClient {
	t.Helper()
	conn := must.Get(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return rls.NewRateLimitServiceClient(conn)
}

// startPeer starts envoyproxy/ratelimit as it comes.
func startPeer(t *testing.T, server *redistest.Server) (rls.RateLimitServiceClient, process) {
	t.Helper()
	root := child.Dir(t)
	write(t, filepath.Join(root, "ratelimit", "config", "edge.yaml"), envoyFile)
	port := strconv.Itoa(freePort(t))
	cmd := exec.Command(peer)
	cmd.Dir = root
	cmd.Env = append(os.Environ(),
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		"PORT="+strconv.Itoa(freePort(t)), "GRPC_PORT="+port, "DEBUG_PORT="+strconv.Itoa(freePort(t)),
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_APPDIRECTORY=config", "RUNTIME_WATCH_ROOT=false",
		"USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=SINGLE", "REDIS_URL="+server.Addr(),
	)
	c := dial(t, "127.0.0.1:"+port)
	ask := rateLimit(c)
	p := start(t, cmd, func(string) bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return ask(ctx, 0) == nil
	})
	return c, p
}

// plain removes what a table has and a name of a test should not.
func plain(name string) string { return strings.ReplaceAll(name, "`", "") }
