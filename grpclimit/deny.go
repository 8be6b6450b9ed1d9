package grpclimit

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weblimit/weblimit/core"
)

// Domain is the domain of the google.rpc.ErrorInfo of a denial.
const Domain = "github.com/weblimit/weblimit"

// pushback is the trailer by which a server tells the retry policy of a client when to retry, or
// not to (gRPC proposal A6).
const pushback = "grpc-retry-pushback-ms"

// maxPushback is the longest wait that a client's retry policy is asked for. The client's call
// hangs meanwhile, and ends with DEADLINE_EXCEEDED if its deadline passes. For a longer wait the
// policy is told not to retry, so that the application sees the denial at once.
const maxPushback = 10 * time.Second

// deny returns the error of a denied call, and sends its headers.
func (in *Interceptors) deny(x *exchange) error {
	d := &x.Decision
	err := denial(x, d)
	if in.config.Denied != nil {
		if own := in.config.Denied(x, x.request.call, *d); codeOf(own) != codes.OK {
			err = own
		}
	}
	if x.response == &x.own {
		x.sendTrailer()
	}
	return err
}

// pushbackOf returns the value of the pushback trailer, "" for none.
func pushbackOf(ctx context.Context, d *core.Decision) string {
	if d.Allowed {
		return ""
	}
	wait := d.RetryAfter
	switch code := denialCode(d); {
	case code == codes.Unavailable:
		if wait <= 0 {
			return "" // by the policy's own backoff
		}
	case code != codes.ResourceExhausted:
		return "" // not retried
	case wait <= 0 || d.Status() != http.StatusTooManyRequests: // such as 402: a client that waits gets no further
		return "-1"
	}
	if deadline, ok := ctx.Deadline(); wait > maxPushback || ok && wait >= time.Until(deadline) {
		return "-1"
	}
	return strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10)
}

// Deny answers a denied call as the limiter does without [Config.Denied], for a Denied that also
// logs or counts, and for handlers that ask a limiter themselves:
//
//	if d := limiter.AllowKey(ctx, "item:"+id, 1); !d.Allowed {
//		return nil, grpclimit.Deny(ctx, d)
//	}
//
// It has the headers of the decision sent as trailers, with grpc-retry-pushback-ms, and returns the
// error for the handler to return. ctx is the call's. The error is nil if d allows the call.
//
// The code is RESOURCE_EXHAUSTED for a limit, UNAVAILABLE for an outage, and UNAUTHENTICATED or
// INVALID_ARGUMENT for a key that is missing or ambiguous, by d.Status(). The message is that of
// the body that adapters for HTTP send. The details are:
//   - google.rpc.ErrorInfo with [Domain] and a reason such as LIMIT_EXCEEDED: a message that
//     is too large is RESOURCE_EXHAUSTED, too, and has none;
//   - google.rpc.RetryInfo, unless waiting can't help;
//   - google.rpc.QuotaFailure with the names of the limits that were exceeded, but hidden ones, and never a key;
//   - google.rpc.LocalizedMessage, if the limiter has Config.Details and the call's metadata
//     an accept-language.
func Deny(ctx context.Context, d core.Decision) error {
	if d.Allowed {
		return nil
	}
	x, limited := ctx.Value(exchangeKey{}).(*exchange)
	byHandler := !limited || x.Decision.Allowed // else it is the limiter's denial, whose headers are set
	if value := pushbackOf(ctx, &d); byHandler && (!limited || !x.response.write(&d, nil, value)) {
		var own response
		own.open().write(&d, nil, value)
		_ = own.send(func(md metadata.MD) error { return grpc.SetTrailer(ctx, md) })
	}
	return denial(ctx, &d)
}

// denial returns the error of a denied call.
func denial(ctx context.Context, d *core.Decision) error {
	if d.Reason == core.ReasonCanceled && ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	code := denialCode(d)
	message, _ := detail(d, "")
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reasonOf(d.Reason), Domain: Domain}}
	if d.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
	}
	if failure := quotaFailure(d, message); code == codes.ResourceExhausted && len(failure.Violations) > 0 {
		details = append(details, failure)
	}
	if accept := metadata.ValueFromIncomingContext(ctx, "accept-language"); len(accept) > 0 {
		if text, language := detail(d, strings.Join(accept, ",")); language != "" {
			details = append(details, &errdetails.LocalizedMessage{Locale: language, Message: text})
		}
	}
	plain := status.New(code, message)
	full, err := plain.WithDetails(details...)
	if err != nil { // a message that can't be encoded, such as one in invalid UTF-8
		return plain.Err()
	}
	return full.Err()
}

// denialCode returns the code of a denial: by its HTTP status, but for limits that have chosen one, as by
// [core.Limit.Status].
func denialCode(d *core.Decision) codes.Code {
	switch httpStatus := d.Status(); {
	case httpStatus == http.StatusServiceUnavailable:
		return codes.Unavailable
	case d.Reason != core.ReasonMissingKey && d.Reason != core.ReasonAmbiguousKey:
		return codes.ResourceExhausted
	case httpStatus == http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case httpStatus == http.StatusUnauthorized:
		return codes.Unauthenticated
	case httpStatus == http.StatusForbidden:
		return codes.PermissionDenied
	}
	return codes.InvalidArgument // which no client retries
}

// reasonOf returns the reason of an ErrorInfo: "LIMIT_EXCEEDED". Clients need not know where
// the limit was counted.
func reasonOf(r core.Reason) string {
	switch r {
	case core.ReasonCachedDenial, core.ReasonOutageLocal:
		r = core.ReasonLimitExceeded
	}
	return strings.ToUpper(strings.ReplaceAll(r.String(), " ", "_"))
}

// detail returns the detail of the problem body, and its language if the limiter has several.
func detail(d *core.Decision, acceptLanguage string) (text, language string) {
	body, language := d.AppendProblem(make([]byte, 0, 512), acceptLanguage)
	var problem struct {
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(body, &problem); err != nil {
		return "Rate limit exceeded.", ""
	}
	return problem.Detail, language
}

// quotaFailure lists the limits that denied a call.
func quotaFailure(d *core.Decision, description string) *errdetails.QuotaFailure {
	failure := &errdetails.QuotaFailure{}
	for _, r := range d.Results() {
		if r.Allowed || !r.Enforced() || r.Hidden {
			continue
		}
		failure.Violations = append(failure.Violations, &errdetails.QuotaFailure_Violation{
			Subject:     r.Rule.Name,
			Description: description,
		})
	}
	return failure
}
