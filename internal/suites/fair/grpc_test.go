package fair

import (
	"context"
	"net"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/internal/test/must"
)

func throughGRPC(t *testing.T, o order) ask {
	guard := grpclimit.New(o.limiter(t))
	server := grpc.NewServer(grpc.UnaryInterceptor(guard.Unary))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener := bufconn.Listen(1 << 16)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn := must.Get(grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })))(t)
	t.Cleanup(func() { _ = conn.Close() })
	client := grpc_health_v1.NewHealthClient(conn)
	return func(name string) int {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "x-client", name)
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		switch status.Code(err) {
		case codes.OK:
			return http.StatusOK
		case codes.ResourceExhausted:
			return http.StatusTooManyRequests
		}
		return http.StatusInternalServerError
	}
}
