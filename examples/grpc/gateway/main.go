// Command gateway is grpc-gateway in front of the server beside it: JSON over HTTP, with the
// server's limits as HTTP clients know them: 429, Retry-After and RateLimit. It listens on ADDR, by default
// :8081. SERVER is the gRPC server, by default localhost:50051. Start that one with PROXY=127.0.0.1:
// each client then has a limit of its own.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails" // the details of denials: without it the gateway answers 500
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/examples/grpc/support"
)

func main() {
	conn, err := grpc.NewClient(cmp.Or(os.Getenv("SERVER"), "localhost:50051"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	mux := runtime.NewServeMux(
		runtime.WithIncomingHeaderMatcher(incoming),
		runtime.WithOutgoingHeaderMatcher(outgoing),
		runtime.WithErrorHandler(failed))
	// By a connection: RegisterSupportHandlerServer would call the service past all interceptors.
	if err := support.RegisterSupportHandler(context.Background(), mux, conn); err != nil {
		log.Fatal(err)
	}

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8081"))
	if err != nil {
		log.Fatal(err)
	}
	url := fmt.Sprintf("http://localhost:%d/support.v1.Support/Ask", listener.Addr().(*net.TCPAddr).Port)
	fmt.Printf(`Listening. Reach the limit of calls, then try to be another client:

  curl -i -d '{"text":"limits"}' %[1]s   # 200: about limits
  for i in 1 2 3 4 5 6 7; do curl -i -d '{}' %[1]s; done   # 200, then 429: Retry-After
  curl -i -H 'Grpc-Metadata-X-Forwarded-For: 203.0.113.9' -d '{}' %[1]s   # 429: Retry-After
`, url)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

// limitHeaders are the names of rate limit headers, by their names as metadata.
var limitHeaders = func() map[string]string {
	names := map[string]string{}
	for _, name := range core.ExposeHeaders() {
		names[strings.ToLower(name)] = name
	}
	return names
}()

// outgoing gives rate limit headers their own names: the gateway's have the prefix Grpc-Metadata-.
func outgoing(key string) (string, bool) {
	if name, ok := limitHeaders[key]; ok {
		return name, true
	}
	return runtime.MetadataHeaderPrefix + key, true
}

// incoming keeps clients from setting metadata that the server believes, such as x-real-ip, by
// headers like Grpc-Metadata-X-Real-Ip.
func incoming(key string) (string, bool) {
	if strings.HasPrefix(key, runtime.MetadataHeaderPrefix) {
		return "", false
	}
	return runtime.DefaultHeaderMatcher(key)
}

// failed sends the rate limit headers of a denial, which are trailers.
func failed(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if md, ok := runtime.ServerMetadataFromContext(ctx); ok {
		for key, name := range limitHeaders {
			if values := md.TrailerMD[key]; len(values) > 0 {
				w.Header().Set(name, values[0])
			}
		}
	}
	runtime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, err)
}
