package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/service/internal/described"
)

// oddRequest is a request that the service does not take. What it must have instead follows "The
// request must have one".
type oddRequest struct{ want string }

func (o *oddRequest) Error() string {
	return "weblimit: client: the service takes no such request, want one " + o.want
}

// odd returns why the service would not take a request, or nil. A client chooses these parts of its request. If
// the service refused a check for them, that must not look like an outage, in which the request may pass.
func (r *Request) odd() error {
	switch {
	case len(r.Method) > described.MaxMethod || !described.IsPlain(r.Method):
		return &oddRequest{fmt.Sprintf("method of at most %d bytes", described.MaxMethod)}
	case len(r.Route) > described.MaxRoute:
		return &oddRequest{fmt.Sprintf("route of at most %d bytes", described.MaxRoute)}
	case len(r.Path) > described.MaxPath:
		return &oddRequest{fmt.Sprintf("path of at most %d bytes", described.MaxPath)}
	case !described.IsPlain(r.Path) || strings.ContainsAny(r.Path, "?#"):
		return &oddRequest{"path without ?, # and control characters"}
	}
	for _, part := range []struct {
		what string
		of   map[string][]string
	}{{"header", r.Headers}, {"cookie", r.Cookies}, {"parameter of the query", r.Query}} {
		all := 0
		for name, lines := range part.of {
			if len(lines) > described.MaxLines {
				return &oddRequest{fmt.Sprintf("%s %s of at most %d values", part.what, name, described.MaxLines)}
			}
			for _, line := range lines {
				if len(line) > described.MaxValue {
					return &oddRequest{fmt.Sprintf("%s %s of at most %d bytes", part.what, name, described.MaxValue)}
				}
			}
			all += len(lines)
		}
		if all > described.MaxFields {
			return &oddRequest{fmt.Sprintf("%s per name: together at most %d", part.what, described.MaxFields)}
		}
	}
	for name, value := range r.Params {
		if len(value) > described.MaxValue {
			return &oddRequest{fmt.Sprintf("parameter %s of at most %d bytes", name, described.MaxValue)}
		}
	}
	for name, value := range r.Values {
		if text, ok := value.(string); ok && len(text) > described.MaxValue {
			return &oddRequest{fmt.Sprintf("value %s of at most %d bytes", name, described.MaxValue)}
		}
	}
	return nil
}

// errNoAtMost is the error of a batch that an older service refuses: it reads no field that it does not know.
var errNoAtMost = errors.New("weblimit: client: the service is too old to grant a part of a batch; update it, or ask by AllowKey or Allow")

// refused returns the verdict on a check that the service has refused, or would have, for what it says;
// or false for other errors, such as an unknown policy, which are outages.
func refused(err error, q *compose.Question) (compose.Verdict, bool) {
	odd, problem := (*oddRequest)(nil), (*Problem)(nil)
	switch {
	case errors.As(err, &odd):
	case q.AtMost && errors.As(err, &problem) && problem.Status == http.StatusBadRequest && problem.Pointer == "/at_most":
		return compose.Verdict{Reason: core.ReasonInvalidCost, Err: errNoAtMost}, true
	case errors.As(err, &problem) && problem.Pointer == "/warnings": // an older service would refuse all: that is an outage
		return compose.Verdict{}, false
	case errors.As(err, &problem) && (problem.Status == http.StatusBadRequest || problem.Status == http.StatusRequestEntityTooLarge || problem.Status == http.StatusUnprocessableEntity):
		odd = &oddRequest{"form that the rate limiter can read"}
	default:
		return compose.Verdict{}, false
	}
	if q.Request == nil {
		return compose.Verdict{Reason: core.ReasonAmbiguousKey, What: "key that the rate limiter can read"}, true
	}
	return compose.Verdict{Reason: core.ReasonAmbiguousKey, What: odd.want}, true
}
