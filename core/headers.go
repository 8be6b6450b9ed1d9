package core

import (
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

const headerRetryAfter = "Retry-After" // RFC 9110, section 10.2.3

// Header is a response header as [Decision.SetHeaders] needs it. http.Header is one.
type Header interface {
	Get(name string) string
	Set(name, value string)
}

// HeadersWhen says which responses tell clients of their limits. Retry-After is
// on every denial that waiting can end, whatever it says.
type HeadersWhen uint8

const (
	// Always tells on every response that limits were asked for.
	Always HeadersWhen = iota
	// NearLimit tells when a level of WarnAt or the soft limit is reached, or a fifth of a limit or
	// less is left.
	NearLimit
	// OnDenial tells on denials only.
	OnDenial
	// Never tells nothing.
	Never
)

func (w HeadersWhen) validate() error {
	if w > Never {
		return configError("HeadersWhen", "is unknown")
	}
	return nil
}

// headerStyle is how a limiter tells clients of their limits.
type headerStyle struct {
	dialects Headers
	when     HeadersWhen
	policy   []string // draft-11's policy field, with no spare capacity; nil if it depends on the request
}

func newHeaderStyle(config Config, limits []limit) headerStyle {
	style := headerStyle{dialects: config.Headers, when: config.HeadersWhen}
	if style.dialects == 0 {
		style.dialects = Draft11
	}
	var dst []byte
	for i := range limits {
		if limits[i].tiers != nil || limits[i].scaling != nil || limits[i].reserve != nil {
			return style
		}
		if !limits[i].shadow {
			dst = append(separate(dst), describe(&limits[i].rule)...)
		}
	}
	style.policy = []string{string(dst)}[:1:1]
	return style
}

// ExposeHeaders returns the names of all headers that any limiter may set, for
// the Access-Control-Expose-Headers of an application whose pages are to read
// them from another origin.
func ExposeHeaders() []string {
	return []string{
		"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
		"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Warning", "Retry-After",
	}
}

// SetHeaders writes what a client may know of its limits: in the dialects of
// Config.Headers, a warning if it came near one, and Retry-After on a denial.
// Call it before the handler writes.
//
// Where another limiter has written already, members of a list stay in front of
// new ones, fields that tell of one limit keep the one with less remaining, the
// warning the one that is used more, and the longer Retry-After wins. Limits in shadow mode do not show, nor do limits
// that were not asked.
func (d *Decision) SetHeaders(h Header) {
	if d.limiter == nil || d.Reason == ReasonBypassed || (d.Reason == ReasonWithinLimit || d.Reason == ReasonShadowed) && d.count == 0 {
		return // no limit applied
	}
	style := &d.limiter.headers
	if d.shows(style.when) {
		if style.dialects&Draft11 != 0 {
			d.setDraft11(h, style)
		}
		if style.dialects&^Draft11 != 0 {
			d.setOlder(h, style.dialects)
		}
		if r := d.warning(); r != nil && d.Allowed && usedPercent(h.Get(headerWarning)) < r.usedPercent() {
			h.Set(headerWarning, string(appendWarning(nil, r)))
		}
	}
	if seconds := d.retryAfterSeconds(); seconds > 0 {
		before := h.Get(headerRetryAfter)
		if before != "" {
			if n, err := strconv.ParseInt(before, 10, 64); err == nil && n >= seconds {
				return
			}
		}
		h.Set(headerRetryAfter, strconv.FormatInt(seconds, 10))
	}
}

func (d *Decision) shows(when HeadersWhen) bool {
	switch when {
	case Always:
		return true
	case NearLimit:
		for _, r := range d.Results() {
			if !r.Shadow && (r.WarnLevel > 0 || r.Soft || r.Remaining <= r.Rule.Burst/5) {
				return true
			}
		}
		return !d.Allowed
	case OnDenial:
		return !d.Allowed
	}
	return false
}

// asked reports whether the store was asked about limits, so that there is
// something to tell of them.
func (d *Decision) asked() bool {
	return len(d.Results()) > 0 && d.Reason != ReasonMissingKey && d.Reason != ReasonAmbiguousKey && d.Reason != ReasonInvalidCost
}

// lines is a [Header] that knows all lines of a field. Add is for a field that has
// none, where it can be cheaper than Set.
type lines interface {
	Values(name string) []string
	Add(name, value string)
}

// addMember adds to a field that is a list, of which others may have written
// several lines.
func addMember(h Header, name, value string) {
	var before string
	if lines, ok := h.(lines); ok {
		all := lines.Values(name)
		if len(all) == 0 {
			lines.Add(name, value)
			return
		}
		before = strings.Join(all, ", ")
	} else {
		before = h.Get(name)
	}
	if before != "" {
		value = before + ", " + value
	}
	h.Set(name, value)
}

// separate begins a further member of a list, if there is one already.
func separate(dst []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ", "...)
	}
	return dst
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
	return min(integer.CeilDiv(int64(max(d, 0)), int64(time.Second)), maxFieldInteger)
}

// retryAfterSeconds returns the value of Retry-After, or 0 where it does not belong.
func (d *Decision) retryAfterSeconds() int64 {
	if d.Allowed || d.RetryAfter == 0 {
		return 0
	}
	return max(seconds(d.RetryAfter), 1)
}
