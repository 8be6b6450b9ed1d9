package core

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// The response fields of draft-ietf-httpapi-ratelimit-headers-11, an
// Internet-Draft, and Retry-After (RFC 9110, section 10.2.3). Names are in
// canonical form, as Go's http.Header keeps them; clients compare them without
// regard to case.
const (
	headerPolicy     = "Ratelimit-Policy"
	headerLimit      = "Ratelimit"
	headerRetryAfter = "Retry-After"
)

// The parameters of draft-11. A later draft may rename them.
const (
	paramQuota     = ";q=" // RateLimit-Policy: the quota
	paramWindow    = ";w=" // RateLimit-Policy: the window in seconds
	paramRemaining = ";r=" // RateLimit: the units available
	paramEffective = ";t=" // RateLimit: the seconds they have to last
)

// maxFieldInteger is the largest integer of a structured field (RFC 9651, section 3.3.1).
const maxFieldInteger = 999_999_999_999_999

// Header is a response header as [Decision.SetHeaders] needs it. http.Header is
// one, and [HeaderMap] is the same without the copying.
type Header interface {
	Get(name string) string
	Set(name, value string)
}

// HeaderMap is an http.Header, or any map of its kind, to write a decision to:
//
//	d.SetHeaders(core.HeaderMap(w.Header()))
type HeaderMap map[string][]string

// Get returns the first value of name, which must be in canonical form.
func (h HeaderMap) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Values returns all values of name, which must be in canonical form.
func (h HeaderMap) Values(name string) []string { return h[name] }

// Set replaces the values of name, which must be in canonical form.
func (h HeaderMap) Set(name, value string) { h[name] = []string{value} }

// SetHeaders writes what a client may know: RateLimit-Policy and RateLimit in
// draft-11 syntax and, on a denial, Retry-After. Call it before the handler
// writes. Where another limiter has written already, its members stay in front
// and the longer Retry-After wins. During an outage, limits that were not asked
// are left out of RateLimit.
func (d *Decision) SetHeaders(h Header) {
	if d.limiter == nil {
		return
	}
	m, isMap := h.(HeaderMap)
	if isMap && len(m[headerPolicy]) == 0 {
		m[headerPolicy] = d.limiter.policy // shared: it has no room to append to
	} else {
		addMember(h, headerPolicy, d.limiter.policy[0])
	}
	if len(d.Results()) > 0 {
		var buf [128]byte
		value := string(d.appendRateLimit(buf[:0]))
		if isMap && len(m[headerLimit]) == 0 {
			m[headerLimit] = []string{value}
		} else {
			addMember(h, headerLimit, value)
		}
	}
	if seconds := d.retryAfterSeconds(); seconds > 0 {
		if earlier, err := strconv.ParseInt(h.Get(headerRetryAfter), 10, 64); err != nil || earlier < seconds {
			h.Set(headerRetryAfter, strconv.FormatInt(seconds, 10))
		}
	}
}

func addMember(h Header, name, value string) {
	before := h.Get(name)
	if all, ok := h.(interface{ Values(name string) []string }); ok {
		before = strings.Join(all.Values(name), ", ")
	}
	if before != "" {
		value = before + ", " + value
	}
	h.Set(name, value)
}

func (d *Decision) appendRateLimit(dst []byte) []byte {
	for i, r := range d.Results() {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendQuoted(dst, r.Rule.Name)
		dst = append(dst, paramRemaining...)
		dst = strconv.AppendInt(dst, min(max(r.Remaining, 0), maxFieldInteger), 10)
		dst = append(dst, paramEffective...)
		dst = strconv.AppendInt(dst, max(seconds(r.Window), 1), 10)
	}
	return dst
}

// policyField builds the field that is the same on every response.
func policyField(limits []limit) string {
	var dst []byte
	for i := range limits {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = limits[i].rule.appendPolicy(dst)
	}
	return string(dst)
}

// appendPolicy describes the rule. A bucket is described by what it holds and
// how long it takes to fill, so that r is never above q. A time that is not a
// whole number of seconds is left out rather than rounded.
func (r *Rule) appendPolicy(dst []byte) []byte {
	dst = appendQuoted(dst, r.Name)
	dst = append(dst, paramQuota...)
	dst = strconv.AppendInt(dst, min(r.Burst, maxFieldInteger), 10)
	if fill, exact := r.fillTime(); exact && fill%time.Second == 0 {
		dst = append(dst, paramWindow...)
		dst = strconv.AppendInt(dst, seconds(fill), 10)
	}
	return dst
}

// fillTime returns how long the rule takes to grant its burst, and whether that
// is a whole number of microseconds. For all but token buckets it is the window.
func (r *Rule) fillTime() (fill time.Duration, exact bool) {
	high, low := bits.Mul64(uint64(r.Burst), uint64(r.Window.Microseconds()))
	quotient, rest := bits.Div64(high, low, uint64(r.Quota))
	return micros(int64(quotient)), rest == 0
}

// appendQuoted writes a limit's name as a string of a structured field and of
// JSON alike: names hold nothing that either would escape.
func appendQuoted(dst []byte, name string) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"')
}

// seconds rounds up, within what a structured field can hold.
func seconds(d time.Duration) int64 {
	return min(ceilDiv(int64(max(d, 0)), int64(time.Second)), maxFieldInteger)
}

// retryAfterSeconds returns the value of Retry-After, or 0 where it does not belong.
func (d *Decision) retryAfterSeconds() int64 {
	if d.Allowed || d.RetryAfter == 0 {
		return 0
	}
	return max(seconds(d.RetryAfter), 1)
}
