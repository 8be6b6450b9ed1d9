package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// start serves the health service of grpc, whose methods the examples call, and returns a client.
func start(server *grpc.Server) (client healthpb.HealthClient, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	healthpb.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return healthpb.NewHealthClient(conn), func() {
		_ = conn.Close()
		server.Stop()
	}
}

func ExampleLimit() {
	limit := grpclimit.Limit(core.NewMemory(), core.PerHour(2).By(keyfuncs.ClientIP()).Named("client"))
	client, stop := start(grpc.NewServer(limit.Options()...))
	defer stop()

	for range 3 {
		var header metadata.MD
		_, err := client.Check(context.Background(), new(healthpb.HealthCheckRequest), grpc.Header(&header))
		quota, _, _ := strings.Cut(strings.Join(header["ratelimit"], ""), ";t=")
		fmt.Println(status.Code(err), []string{quota})
		for _, detail := range status.Convert(err).Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				fmt.Println("retry in", retry.RetryDelay.AsDuration().Round(time.Minute))
			}
		}
	}
	// Output:
	// OK ["client";r=1]
	// OK ["client";r=0]
	// ResourceExhausted []
	// retry in 30m0s
}

// Calls and messages share a store, exemptions and headers.
func ExampleWith() {
	limits := grpclimit.With(core.Config{
		Store:   core.NewMemory(),
		Headers: core.XRateLimit,
		Bypass:  []keyfuncs.Condition{keyfuncs.Routes("/grpc.health.v1.Health/List")},
	})
	calls := limits.Limit(core.PerHour(2).By(keyfuncs.ClientIP()).Named("calls"))
	messages := limits.Limit(core.PerHour(100).By(keyfuncs.ClientIP()).Named("messages"))
	client, stop := start(grpc.NewServer(
		grpc.ChainUnaryInterceptor(calls.Unary),
		grpc.ChainStreamInterceptor(calls.Stream, messages.Messages),
	))
	defer stop()

	for range 2 {
		var header metadata.MD
		_, err := client.Check(context.Background(), new(healthpb.HealthCheckRequest), grpc.Header(&header))
		fmt.Println("Check:", status.Code(err), header["x-ratelimit-remaining"])
	}
	_, err := client.List(context.Background(), new(healthpb.HealthListRequest))
	fmt.Println("List:", status.Code(err))
	// Output:
	// Check: OK [1]
	// Check: OK [0]
	// List: OK
}

func ExampleNew() {
	limiter, err := core.New(core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{core.PerHour(1).By(keyfuncs.ClientIP())},
		Bypass: []keyfuncs.Condition{keyfuncs.Routes("/grpc.health.v1.Health/List")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	limit := grpclimit.New(limiter, grpclimit.Config{
		Denied: func(ctx context.Context, call grpclimit.Call, d core.Decision) error {
			fmt.Println("log:", call.Method, d.Reason)
			return grpclimit.Deny(ctx, d)
		},
	})
	client, stop := start(grpc.NewServer(
		grpc.ChainUnaryInterceptor(limit.Unary),
		grpc.ChainStreamInterceptor(limit.Stream),
	))
	defer stop()

	for range 2 {
		_, err := client.Check(context.Background(), new(healthpb.HealthCheckRequest))
		fmt.Println("Check:", status.Code(err))
		_, err = client.List(context.Background(), new(healthpb.HealthListRequest))
		fmt.Println("List:", status.Code(err))
	}
	// Output:
	// Check: OK
	// List: OK
	// log: /grpc.health.v1.Health/Check limit exceeded
	// Check: ResourceExhausted
	// List: OK
}

// The interceptors limit calls, and the handler asks a limiter about what only it knows.
func ExampleDeny() {
	limits := grpclimit.With(core.Config{Store: core.NewMemory()})
	calls := limits.Limit(core.PerHour(100).By(keyfuncs.ClientIP()).Named("calls"))
	exports := limits.Limiter(core.PerHour(1).By(keyfuncs.Everyone()).Named("exports"))
	handler := func(ctx context.Context, account string) error {
		if d := exports.AllowKey(ctx, "account:"+account, 1); !d.Allowed {
			return grpclimit.Deny(ctx, d)
		}
		return nil
	}
	client, stop := start(grpc.NewServer(append(calls.Options(),
		// In place of a service of yours.
		grpc.ChainUnaryInterceptor(func(ctx context.Context, message any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := handler(ctx, "42"); err != nil {
				return nil, err
			}
			return next(ctx, message)
		}))...))
	defer stop()

	for range 2 {
		var trailer metadata.MD
		_, err := client.Check(context.Background(), new(healthpb.HealthCheckRequest), grpc.Trailer(&trailer))
		fmt.Println(status.Code(err), trailer["ratelimit-policy"])
	}
	// Output:
	// OK []
	// ResourceExhausted ["calls";q=100;w=3600, "exports";q=1;w=3600]
}

// Each service that is asked about has a bucket, and a longer name costs more.
func ExampleKey() {
	service := func(call grpclimit.Call) string {
		if m, ok := call.Message.(*healthpb.HealthCheckRequest); ok {
			return m.GetService()
		}
		return ""
	}
	limit := grpclimit.Limit(core.NewMemory(), core.PerHour(10).
		By(grpclimit.Key("service", func(_ context.Context, call grpclimit.Call) string { return service(call) })).
		CostBy(grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 { return int64(len(service(call))) })))
	client, stop := start(grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream)))
	defer stop()

	for _, name := range []string{"orders", "orders", "users", "users"} {
		_, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{Service: name})
		fmt.Println(name, status.Code(err)) // NotFound is the answer of the service
	}
	// Output:
	// orders NotFound
	// orders ResourceExhausted
	// users NotFound
	// users NotFound
}

// Internal callers, which are known by their certificates, are exempt from the limit.
func ExampleMatches() {
	internal := grpclimit.Matches(func(ctx context.Context, _ grpclimit.Call) bool {
		cert := grpclimit.PeerCertificate(ctx)
		return cert != nil && cert.Subject.CommonName == "billing"
	})
	limit := grpclimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.ClientIP()).Unless(internal))
	client, stop := start(grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream)))
	defer stop()

	for range 2 { // without a certificate
		_, err := client.Check(context.Background(), new(healthpb.HealthCheckRequest))
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}

// Calls are limited when they start, and messages of streams one by one.
func ExampleInterceptors_Messages() {
	store := core.NewMemory()
	calls := grpclimit.Limit(store, core.PerMinute(60).By(keyfuncs.ClientIP()).Named("calls"))
	messages := grpclimit.Limit(store, core.PerHour(1).By(keyfuncs.ClientIP()).Named("messages"))
	client, stop := start(grpc.NewServer(
		grpc.ChainUnaryInterceptor(calls.Unary),
		grpc.ChainStreamInterceptor(calls.Stream, messages.Messages),
	))
	defer stop()

	for range 2 {
		stream, err := client.Watch(context.Background(), new(healthpb.HealthCheckRequest))
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = stream.Recv()
		fmt.Println(status.Code(err))
	}
	// Output:
	// OK
	// ResourceExhausted
}

// Everybody has less while the handlers behind the limiter are overloaded.
func ExampleMeasure() {
	load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 200, Slow: time.Second})
	limit := grpclimit.Limit(core.NewMemory(), core.PerHour(100).By(keyfuncs.ClientIP()).Scale(load.Factor))
	client, stop := start(grpc.NewServer(append(limit.Options(), grpclimit.Measure(load)...)...))
	defer stop()

	_, err := client.Check(context.Background(), new(healthpb.HealthCheckRequest))
	fmt.Println(status.Code(err), load.InFlight(), "at work")
	// Output: OK 0 at work
}
