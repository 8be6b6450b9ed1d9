// Command client calls the server beside it, and prints what it says about its limits:
//
//	go run ./client [-server localhost:50051] [-retry] ask|chat|health [times]
//
// With -retry it has a retry policy, which waits as long as the limit says.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/examples/grpc/support"
)

// retries is a service config. The server's grpc-retry-pushback-ms takes the place of the backoff.
const retries = `{"methodConfig": [{
	"name": [{"service": "support.v1.Support"}],
	"retryPolicy": {
		"maxAttempts": 3,
		"initialBackoff": "0.1s",
		"maxBackoff": "1s",
		"backoffMultiplier": 2,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]
	}
}]}`

func main() {
	addr := flag.String("server", "localhost:50051", "the server's address")
	retry := flag.Bool("retry", false, "retry denied calls when the server says")
	flag.Parse()
	times, err := strconv.Atoi(flag.Arg(1))
	if err != nil {
		times = 1
	}

	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if *retry {
		options = append(options, grpc.WithDefaultServiceConfig(retries))
	}
	conn, err := grpc.NewClient(*addr, options...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	switch flag.Arg(0) {
	case "ask":
		ask(ctx, conn, times)
	case "chat":
		chat(ctx, conn, times)
	case "health":
		for range times {
			_, err := healthpb.NewHealthClient(conn).Check(ctx, new(healthpb.HealthCheckRequest))
			report(err, nil)
		}
	default:
		flag.Usage()
	}
}

func ask(ctx context.Context, conn *grpc.ClientConn, times int) {
	client := support.NewSupportClient(conn)
	for range times {
		var header metadata.MD
		_, err := client.Ask(ctx, &support.Question{Text: "limits"}, grpc.Header(&header))
		report(err, header)
	}
}

func chat(ctx context.Context, conn *grpc.ClientConn, times int) {
	stream, err := support.NewSupportClient(conn).Chat(ctx)
	if err != nil {
		report(err, nil)
		return
	}
	for range times {
		if err := stream.Send(&support.Question{Text: "limits"}); err != nil {
			break // Recv says why
		}
		_, err := stream.Recv()
		report(err, nil)
	}
}

// report prints a response: its code, and what is left or which limit denied it.
func report(err error, header metadata.MD) {
	s := status.Convert(err)
	fmt.Print(s.Code())
	for _, left := range header["ratelimit"] {
		fmt.Print(" ", left)
	}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.QuotaFailure:
			for _, v := range d.Violations {
				fmt.Print(", limit ", v.Subject)
			}
		case *errdetails.RetryInfo:
			fmt.Print(", retry in ", d.RetryDelay.AsDuration().Round(100*time.Millisecond))
		}
	}
	fmt.Println()
}
