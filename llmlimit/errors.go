package llmlimit

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// failure is an error as a provider would write it.
type failure struct {
	status  int
	measure Measure // of the limit that denies
	message string
	retry   time.Duration // 0 if waiting can't help
}

// appendJSON appends the body of the error, in the form of an API.
func (f failure) appendJSON(dst []byte, api API) []byte {
	message, _ := json.Marshal(f.message) //nolint:errchkjson // a string can be written
	switch api {
	case Anthropic:
		dst = append(append(dst, `{"type":"error","error":{"type":"`...), f.anthropicType()...)
		return append(append(append(dst, `","message":`...), message...), "}}"...)
	case Gemini:
		dst = strconv.AppendInt(append(dst, `{"error":{"code":`...), int64(f.status), 10)
		dst = append(append(append(dst, `,"message":`...), message...), `,"status":"`...)
		dst = append(append(dst, f.googleStatus()...), '"')
		if f.retry > 0 {
			dst = append(dst, `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
			dst = append(append(dst, strconv.FormatInt(wholeSeconds(f.retry), 10)...), `s"}]`...)
		}
		return append(dst, "}}"...)
	case Bedrock:
		return append(append(append(dst, `{"message":`...), message...), '}')
	}
	return append(f.appendOpenAI(append(dst, `{"error":{`...), message), "}}"...)
}

// appendOpenAI appends the fields of an error of OpenAI.
func (f failure) appendOpenAI(dst, message []byte) []byte {
	kind, code := f.openAIType()
	dst = append(append(append(dst, `"message":`...), message...), `,"type":"`...)
	dst = append(append(dst, kind...), `","param":null,"code":`...)
	if code == "" {
		return append(dst, "null"...)
	}
	return append(append(append(dst, '"'), code...), '"')
}

func (f failure) openAIType() (kind, code string) {
	switch {
	case f.status == http.StatusPaymentRequired, f.status == http.StatusTooManyRequests && f.measure == Money:
		return "insufficient_quota", "insufficient_quota"
	case f.status == http.StatusTooManyRequests && f.measure == Requests:
		return "requests", "rate_limit_exceeded"
	case f.status == http.StatusTooManyRequests:
		return "tokens", "rate_limit_exceeded"
	case f.status == http.StatusUnauthorized:
		return "invalid_request_error", "invalid_api_key"
	case f.status >= http.StatusInternalServerError:
		return "server_error", ""
	}
	return "invalid_request_error", ""
}

func (f failure) anthropicType() string {
	switch f.status {
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	}
	if f.status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

func (f failure) googleStatus() string {
	switch f.status {
	case http.StatusTooManyRequests, http.StatusPaymentRequired:
		return "RESOURCE_EXHAUSTED"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	}
	if f.status < http.StatusInternalServerError {
		return "FAILED_PRECONDITION"
	}
	return "UNAVAILABLE"
}

// amazonType is the value of Amazon's header for the type of an error.
func (f failure) amazonType() string {
	switch f.status {
	case http.StatusTooManyRequests:
		return "ThrottlingException"
	case http.StatusPaymentRequired:
		return "ServiceQuotaExceededException"
	case http.StatusUnauthorized, http.StatusForbidden:
		return "AccessDeniedException"
	}
	if f.status < http.StatusInternalServerError {
		return "ValidationException"
	}
	return "ServiceUnavailableException"
}

// wholeSeconds returns a time in seconds, rounded up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
