package core

import (
	"encoding/json"
	"strconv"
)

// ProblemType is the media type of a denial's body (RFC 9457).
const ProblemType = "application/problem+json"

// Status returns the HTTP status code of a denial: 429 for a limit, unless [Limit.Status] says another, and for a block; 400
// for an ambiguous key, which no wait will change; 401 or 400 for a missing key, see
// [DenyRequest]; 503 for an outage, and for a request
// that ended while it waited for its turn.
func (d *Decision) Status() int {
	if d.held != nil && d.held.elsewhere != nil && d.held.elsewhere.status != 0 {
		return d.held.elsewhere.status
	}
	switch d.Reason {
	case ReasonOutageDenied, ReasonCanceled:
		return statusServiceUnavailable
	case ReasonAmbiguousKey:
		return statusBadRequest
	case ReasonMissingKey:
		status, _ := d.missingKeyAnswer()
		return status
	}
	return d.deniedStatus()
}

// AppendProblem appends the body of a denial to dst: JSON of the media type
// [ProblemType]. The problem types are those that
// draft-ietf-httpapi-ratelimit-headers-11 registers, and "about:blank" for a key that is
// ambiguous or missing.
// The body names the limits that were exceeded, as many as have room in 768 bytes, but hidden ones, and never the key. If a calendar limit is used up,
// the detail says for which month or days, and when the next period begins: see [Decision.Quota].
//
// The detail is in the language of Config.Details that suits acceptLanguage best, the
// request's Accept-Language header, which may be empty. That language is returned as it
// is written in Config.Details, for the Content-Language header. It is "" without
// Config.Details.
func (d *Decision) AppendProblem(dst []byte, acceptLanguage string) (body []byte, language string) {
	switch {
	case d.Reason == ReasonAmbiguousKey:
		dst = append(dst, `{"type":"about:blank","title":"Bad Request","status":400,"detail":`...)
		dst, language = d.appendDetail(dst, acceptLanguage)
		return append(dst, '}'), language // no limit was exceeded
	case d.Reason == ReasonMissingKey && d.Status() != statusTooManyRequests:
		dst = append(dst, `{"type":"about:blank",`...)
		if title, ok := statusTitles[d.Status()]; ok {
			dst = append(append(append(dst, `"title":"`...), title...), `",`...)
		}
		dst = append(strconv.AppendInt(append(dst, `"status":`...), int64(d.Status()), 10), `,"detail":`...)
		dst, language = d.appendDetail(dst, acceptLanguage)
		return append(dst, '}'), language
	case d.Status() == statusServiceUnavailable:
		dst = append(dst, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":`...)
	case d.blocked():
		dst = append(dst, `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Abnormal Usage Detected","status":429,"detail":`...)
	default:
		dst = append(dst, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":`...)
		dst = append(strconv.AppendInt(dst, int64(d.Status()), 10), `,"detail":`...)
	}
	dst, language = d.appendDetail(dst, acceptLanguage)
	opening, room := `,"violated-policies":[`, maxField
	for _, r := range d.Results() {
		if r.Allowed || !r.told() {
			continue
		}
		if room -= len(r.Rule.Name) + len(`"",`); room < 0 {
			break
		}
		dst = append(dst, opening...)
		dst = appendQuoted(dst, r.Rule.Name)
		opening = ","
	}
	if opening == "," {
		dst = append(dst, ']')
	}
	return append(dst, '}'), language
}

// appendDetail appends the detail as a JSON string.
func (d *Decision) appendDetail(dst []byte, acceptLanguage string) (_ []byte, language string) {
	if d.limiter != nil && len(d.limiter.details) > 0 {
		language = "en"
		if chosen := chooseDetail(d.limiter.details, acceptLanguage); chosen != nil {
			return appendText(dst, chosen.text(*d)), chosen.tag
		}
	}
	if quoted, ok := d.appendUsedUp(append(dst, '"')); ok {
		return append(quoted, '"'), language
	}
	switch {
	case d.Reason == ReasonOutageDenied:
		dst = append(dst, `"Service temporarily unavailable.`...)
	case d.Reason == ReasonCanceled:
		dst = append(dst, `"The request ended while it waited for its turn.`...)
	case d.Reason == ReasonMissingKey:
		return appendText(dst, "The request has no "+d.Missing()+"."), language
	case d.Reason == ReasonAmbiguousKey:
		return appendText(dst, "The request must have one "+d.Ambiguous()+"."), language
	case d.Reason == ReasonNeverFits:
		dst = append(dst, `"The request costs more than the limit ever allows."`...)
		return dst, language
	case d.blocked() && d.Results()[d.binding].Rule.Penalized():
		dst = append(dst, `"Blocked after exceeding the limit repeatedly.`...)
	case d.blocked():
		dst = append(dst, `"Blocked.`...)
	case d.overShare():
		dst = append(dst, `"You have used your share of what is available now.`...)
	default:
		dst = append(dst, `"Rate limit exceeded.`...)
	}
	switch n := d.RetryAfterSeconds(); n {
	case 0:
	case 1:
		dst = append(dst, ` Retry in 1 second.`...)
	default:
		dst = append(dst, ` Retry in `...)
		dst = strconv.AppendInt(dst, n, 10)
		dst = append(dst, ` seconds.`...)
	}
	return append(dst, '"'), language
}

// appendText appends text as a JSON string.
func appendText(dst []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // a string always marshals
		return append(dst, `""`...)
	}
	return append(dst, quoted...)
}

// blocked reports whether the binding limit blocks the client, in the store or in its
// stand-in during an outage.
func (d *Decision) blocked() bool {
	return !d.Allowed && d.binding >= 0 && int(d.binding) < int(d.count) && d.Results()[d.binding].Blocked
}
