package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Bounds of what the service takes, in bytes; docs/service/http.md has them. A client chooses these parts
// of its request. If the service refused a check for them, that must not look like an outage, in which
// the request may pass.
const (
	maxMethod = 32
	maxRoute  = 512
	maxPath   = 8 << 10
	maxValue  = 8 << 10
	maxLines  = 32  // values of one header, cookie or parameter
	maxFields = 100 // values of all headers, of all cookies and of all parameters
	maxCost   = 1 << 53
	maxName   = 128
)

// oddRequest is a request that the service does not take. What it must have instead follows "The
// request must have one".
type oddRequest struct{ want string }

func (o *oddRequest) Error() string {
	return "weblimit: client: the service takes no such request, want one " + o.want
}

// odd returns why the service would not take a request, or nil.
func (r *Request) odd() error {
	switch {
	case len(r.Method) > maxMethod || !isPlain(r.Method):
		return &oddRequest{fmt.Sprintf("method of at most %d bytes", maxMethod)}
	case len(r.Route) > maxRoute:
		return &oddRequest{fmt.Sprintf("route of at most %d bytes", maxRoute)}
	case len(r.Path) > maxPath:
		return &oddRequest{fmt.Sprintf("path of at most %d bytes", maxPath)}
	case !isPlain(r.Path) || strings.ContainsAny(r.Path, "?#"):
		return &oddRequest{"path without ?, # and control characters"}
	}
	for _, part := range []struct {
		what string
		of   map[string][]string
	}{{"header", r.Headers}, {"cookie", r.Cookies}, {"parameter of the query", r.Query}} {
		all := 0
		for name, lines := range part.of {
			if len(lines) > maxLines {
				return &oddRequest{fmt.Sprintf("%s %s of at most %d values", part.what, name, maxLines)}
			}
			for _, line := range lines {
				if len(line) > maxValue {
					return &oddRequest{fmt.Sprintf("%s %s of at most %d bytes", part.what, name, maxValue)}
				}
			}
			all += len(lines)
		}
		if all > maxFields {
			return &oddRequest{fmt.Sprintf("%s per name: together at most %d", part.what, maxFields)}
		}
	}
	for name, value := range r.Params {
		if len(value) > maxValue {
			return &oddRequest{fmt.Sprintf("parameter %s of at most %d bytes", name, maxValue)}
		}
	}
	for name, value := range r.Values {
		if text, ok := value.(string); ok && len(text) > maxValue {
			return &oddRequest{fmt.Sprintf("value %s of at most %d bytes", name, maxValue)}
		}
	}
	return nil
}

func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// refused returns the verdict on a check that the service has refused, or would have, for what it says;
// or false for other errors, such as an unknown policy, which are outages.
func refused(err error, q *adapter.Question) (adapter.Verdict, bool) {
	odd, problem := (*oddRequest)(nil), (*Problem)(nil)
	switch {
	case errors.As(err, &odd):
	case errors.As(err, &problem) && (problem.Status == http.StatusBadRequest || problem.Status == http.StatusRequestEntityTooLarge || problem.Status == http.StatusUnprocessableEntity):
		odd = &oddRequest{"form that the rate limiter can read"}
	default:
		return adapter.Verdict{}, false
	}
	if q.Request == nil {
		return adapter.Verdict{Reason: core.ReasonAmbiguousKey, What: "key that the rate limiter can read"}, true
	}
	return adapter.Verdict{Reason: core.ReasonAmbiguousKey, What: odd.want}, true
}
