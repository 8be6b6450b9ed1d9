// Command server is a gRPC server with rate limits: 5 calls per 10 seconds for each client, and 3
// messages per minute on its streams. Health checks are exempt. It keeps limits in memory, or in Redis if
// REDIS_URL is set. It listens on ADDR, by default :50051. PROXY is the address of a proxy or
// gateway in front, whose x-forwarded-for names the client; by default there is none.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/examples/grpc/support"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func main() {
	var store core.Store = core.NewMemory()
	if url := os.Getenv("REDIS_URL"); url != "" {
		options, err := redis.ParseURL(url)
		if err != nil {
			log.Fatalf("REDIS_URL must be like redis://localhost:6379/0: %v", err)
		}
		store = redisstore.New(redis.NewClient(options))
	}
	client := keyfuncs.ClientIP()
	if proxy := os.Getenv("PROXY"); proxy != "" {
		client = keyfuncs.ClientIP(keyfuncs.TrustedProxies(proxy))
	}

	limits := grpclimit.With(core.Config{
		Store:  store,
		Bypass: []keyfuncs.Condition{keyfuncs.Routes("/grpc.health.v1.Health/Check")},
	}, grpclimit.Config{Denied: func(ctx context.Context, call grpclimit.Call, d core.Decision) error {
		log.Printf("denied: %s: %v", call.Method, d.Reason)
		return grpclimit.Deny(ctx, d)
	}})
	calls := limits.Limit(core.Per(5, 10*time.Second).By(client).Named("calls"))
	messages := limits.Limit(core.PerMinute(3).By(client).Named("messages"))

	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(calls.Unary),
		grpc.ChainStreamInterceptor(calls.Stream, messages.Messages),
		grpc.MaxConcurrentStreams(100), // of one connection, before any limit
	)
	support.RegisterSupportServer(server, desk{})
	healthpb.RegisterHealthServer(server, health.NewServer())

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":50051"))
	if err != nil {
		log.Fatal(err)
	}
	addr := fmt.Sprintf("localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	fmt.Printf(`Listening. See the limits, reach that of calls, let a retry policy wait for it, then reach that of messages:

  go run ./client -server %[1]s health 20      # OK
  go run ./client -server %[1]s ask 7          # OK, then ResourceExhausted: calls
  go run ./client -server %[1]s -retry ask 2   # OK (each call waits as long as the limit says)
  go run ./client -server %[1]s -retry chat 4  # OK, then ResourceExhausted: messages
`, addr)
	log.Fatal(server.Serve(listener))
}

// desk answers questions.
type desk struct {
	support.UnimplementedSupportServer
}

func (desk) Ask(_ context.Context, q *support.Question) (*support.Answer, error) {
	return &support.Answer{Text: "about " + q.GetText()}, nil
}

func (desk) Chat(stream support.Support_ChatServer) error {
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&support.Answer{Text: "about " + q.GetText()}); err != nil {
			return err
		}
	}
}
