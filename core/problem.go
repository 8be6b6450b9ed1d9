package core

import "strconv"

// ProblemType is the media type of a denial's body (RFC 9457).
const ProblemType = "application/problem+json"

const (
	statusTooManyRequests    = 429
	statusServiceUnavailable = 503
)

// Status returns the HTTP status of a denial: 429, the client's, for a limit; 503,
// the server's, for an outage.
func (d *Decision) Status() int {
	if d.Reason == ReasonOutageDenied {
		return statusServiceUnavailable
	}
	return statusTooManyRequests
}

// AppendProblem appends the body of a denial: a problem of the types that
// draft-ietf-httpapi-ratelimit-headers-11 registers. It names the limits that
// were exceeded and never the key.
func (d *Decision) AppendProblem(dst []byte) []byte {
	if d.Status() == statusServiceUnavailable {
		dst = append(dst, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"Service temporarily unavailable.`...)
	} else {
		dst = append(dst, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded.`...)
	}
	switch n := d.retryAfterSeconds(); n {
	case 0:
	case 1:
		dst = append(dst, ` Retry in 1 second.`...)
	default:
		dst = append(dst, ` Retry in `...)
		dst = strconv.AppendInt(dst, n, 10)
		dst = append(dst, ` seconds.`...)
	}
	dst = append(dst, '"')
	opening := `,"violated-policies":[`
	for _, r := range d.Results() {
		if !r.Allowed {
			dst = append(dst, opening...)
			dst = appendQuoted(dst, r.Rule.Name)
			opening = ","
		}
	}
	if opening == "," {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}
