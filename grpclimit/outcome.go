package grpclimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// outcome returns how the call ended.
func (x *exchange) outcome() core.Outcome {
	o := core.Outcome{Err: x.err, Panicked: !x.returned, Status: http.StatusInternalServerError}
	if !adapter.ReadsOutcome(&x.Decision) {
		return o
	}
	code := codes.Unknown
	if x.returned {
		code = codeOf(x.err)
		o.Status = statusOf(code)
	}
	o.Canceled = x.client.broken.Load()
	o.Waited = x.client.wait()
	if ended := x.request.ctx.Err(); ended != nil {
		o.TimedOut = errors.Is(ended, context.DeadlineExceeded)
		o.Canceled = o.Canceled || !o.TimedOut || x.clientEnded()
	} else if code == codes.DeadlineExceeded && x.nearDeadline() {
		o.TimedOut, o.Canceled = true, true
	}
	return o
}

// clientEnded reports whether the call itself has ended, and not only a context that an
// interceptor around the limiter has made. Clients choose the deadline of their calls, so
// running into it is theirs.
func (x *exchange) clientEnded() bool {
	call, ok := grpc.ServerTransportStreamFromContext(x.request.ctx).(interface{ Context() context.Context })
	return !ok || call.Context().Err() != nil
}

// nearDeadline reports whether more than half of the call's time is over. A server that this one
// has called, with the deadline that the client chose, may notice first that it has passed.
func (x *exchange) nearDeadline() bool {
	deadline, ok := x.request.ctx.Deadline()
	return ok && time.Until(deadline) < time.Since(x.began)
}

// codeOf returns the code that the server sends for a handler's error.
func codeOf(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return status.FromContextError(err).Code()
}

// statuses are the HTTP statuses of codes, as google/rpc/code.proto lists them.
var statuses = [...]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           499,
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

func statusOf(code codes.Code) int {
	if int(code) < len(statuses) {
		return statuses[code]
	}
	return http.StatusInternalServerError
}
