package grpclimit

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// panicked logs what a function of the application, such as a key, has panicked with, and returns
// the error of the call. net/http survives a panic in middleware; a gRPC server does not, and
// interceptors that recover often are inside of this one. So one call whose message a key does
// not expect would end the process.
func panicked(ctx context.Context, call Call, value any) error {
	slog.ErrorContext(ctx, "weblimit: a function of a limit panicked, and the call is denied",
		"method", call.Method, "panic", value, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "The call could not be counted.")
}
