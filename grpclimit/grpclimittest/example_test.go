package grpclimittest_test

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/grpclimit/grpclimittest"
)

func ExampleResponse() {
	// What client.Export(ctx, request, grpc.Trailer(&trailer)) has returned.
	trailer := metadata.Pairs("ratelimit", `"export";r=0;t=12`)
	denied, _ := status.New(codes.ResourceExhausted, "Rate limit exceeded. Retry in 12 seconds.").WithDetails(
		&errdetails.ErrorInfo{Domain: grpclimit.Domain, Reason: "LIMIT_EXCEEDED"},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(11_400_000_000)},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{Subject: "export"}}},
	)

	response := grpclimittest.Response(denied.Err(), trailer)
	fmt.Println(response.Code, response.Header().Get("RateLimit"), response.Header().Get("Retry-After"))
	fmt.Print(response.Body)
	// Output:
	// 429 "export";r=0;t=12 12
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","status":429,"detail":"Rate limit exceeded. Retry in 12 seconds.","violated-policies":["export"]}
}
