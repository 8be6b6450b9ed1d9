package envoy

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// binary builds envoyproxy/ratelimit, once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "service_cmd"), program.Build(dir, ".", "github.com/envoyproxy/ratelimit/src/service_cmd")
})

// startPeer starts envoyproxy/ratelimit with files on a Redis of its own, and returns a client.
func startPeer(t testing.TB, redis *redistest.Server, files []policy.File, environment ...string) rls.RateLimitServiceClient {
	t.Helper()
	name := must.Get(binary())(t)
	root := t.TempDir()
	config := filepath.Join(root, "ratelimit", "config")
	must.OK(t, os.MkdirAll(config, 0o700))
	for _, file := range files {
		must.OK(t, os.WriteFile(filepath.Join(config, file.Name), file.Text, 0o600))
	}
	port := freePort(t)
	cmd := exec.Command(name)
	cmd.Dir = root
	cmd.Env = append(os.Environ(),
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		"PORT="+strconv.Itoa(freePort(t)), "GRPC_PORT="+strconv.Itoa(port), "DEBUG_PORT="+strconv.Itoa(freePort(t)),
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_APPDIRECTORY=config", "RUNTIME_WATCH_ROOT=false",
		"USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_TYPE=SINGLE", "REDIS_URL="+redis.Addr(),
		"LIMIT_RESPONSE_HEADERS_ENABLED=true",
	)
	cmd.Env = append(cmd.Env, environment...)
	return serves(t, cmd, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// serves starts a service, and returns a client once it answers.
func serves(t testing.TB, cmd *exec.Cmd, addr string) rls.RateLimitServiceClient {
	t.Helper()
	c := rls.NewRateLimitServiceClient(dial(t, addr))
	child.Serve(t, cmd, func(string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := c.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "none", Descriptors: parse("a=b")}, grpc.WaitForReady(true))
		return err
	})
	return c
}

// taken holds the ports that freePort has returned: servers that start at the same time must not choose
// the same.
var taken sync.Map

// freePort returns a port that is free now, and below those of outgoing connections, of which one could
// take it before the server does.
func freePort(t testing.TB) int {
	t.Helper()
	for try := 1; ; try++ {
		port := 10_000 + rand.IntN(2000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			if _, again := taken.LoadOrStore(port, true); !again {
				return port
			}
		}
		if try == 20 {
			t.Fatalf("no free port: %v", err)
		}
	}
}

func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn := must.Get(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// startOurs serves files by weblimit on a Redis of its own, and returns a client.
func startOurs(t testing.TB, redis *redistest.Server, files []policy.File, config envoy.Config) rls.RateLimitServiceClient {
	t.Helper()
	config.Store = redisstore.New(redis.Client(t), redisstore.Config{Prefix: redistest.Prefix(t)})
	config.Source = envoy.Files(files...)
	s := must.Get(envoy.New(config))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	g := grpc.NewServer()
	s.Register(g)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return rls.NewRateLimitServiceClient(dial(t, l.Addr().String()))
}
