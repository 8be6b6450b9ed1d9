// Package grpclimittest makes the assertions of package weblimittest work on gRPC calls.
package grpclimittest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/grpclimit"
)

// Response returns what a call has returned, as the response of a server for HTTP with the same
// limits, for the assertions of weblimittest:
//
//	var header, trailer metadata.MD
//	_, err := client.Export(ctx, request, grpc.Header(&header), grpc.Trailer(&trailer))
//	weblimittest.Denied(t, grpclimittest.Response(err, header, trailer), "export")
//
// err is the call's error, and may be nil. The metadata has the fields RateLimit and
// RateLimit-Policy, which a denied call has in its trailer. Retry-After is that of google.rpc.RetryInfo,
// in whole seconds, rounded up.
//
// Only errors of a limiter become denials. Other errors become 500, whatever their code.
func Response(err error, metadata ...metadata.MD) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	for _, md := range metadata {
		for name, values := range md {
			for _, value := range values {
				w.Header().Add(name, value)
			}
		}
	}
	problem := problem{Type: "about:blank", Status: http.StatusOK}
	if err != nil {
		problem = problemOf(status.Convert(err), w.Header())
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(problem.Status)
	if err != nil {
		_ = json.NewEncoder(w).Encode(problem) // strings, which can be encoded
	}
	return w
}

// problem is the body that adapters for HTTP send with a denial.
type problem struct {
	Type     string   `json:"type"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies,omitempty"`
}

const types = "https://iana.org/assignments/http-problem-types#"

// problemOf translates the error of a call, and sets Retry-After.
func problemOf(s *status.Status, header http.Header) problem {
	p := problem{Type: "about:blank", Status: http.StatusInternalServerError, Detail: s.Message()}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.Domain == grpclimit.Domain {
				p.Status, p.Type = statusOf(s.Code(), detail.Reason)
			}
		case *errdetails.RetryInfo:
			wait := detail.RetryDelay.AsDuration() + time.Second - 1
			header.Set("Retry-After", strconv.FormatInt(int64(wait/time.Second), 10))
		case *errdetails.QuotaFailure:
			for _, violation := range detail.Violations {
				p.Violated = append(p.Violated, violation.Subject)
			}
		}
	}
	return p
}

// statusOf returns the HTTP status and the problem type of a limiter's denial.
func statusOf(code codes.Code, reason string) (httpStatus int, kind string) {
	switch code {
	case codes.ResourceExhausted:
		if reason == "BLOCKED" {
			return http.StatusTooManyRequests, types + "abnormal-usage-detected"
		}
		return http.StatusTooManyRequests, types + "quota-exceeded"
	case codes.Unavailable:
		return http.StatusServiceUnavailable, types + "temporary-reduced-capacity"
	case codes.Unauthenticated:
		return http.StatusUnauthorized, "about:blank"
	case codes.PermissionDenied:
		return http.StatusForbidden, "about:blank"
	}
	return http.StatusBadRequest, "about:blank"
}
