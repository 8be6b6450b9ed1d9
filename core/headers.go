package core

import (
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/internal/seam"
)

// HeadersWhen says which responses have rate limit headers; see Config.HeadersWhen.
// Retry-After is not affected: it is on every denial that waiting can end.
type HeadersWhen uint8

const (
	// Always sets them on every response to which a limit applied.
	Always HeadersWhen = iota
	// NearLimit sets them on denials, and when a level of [Limit.WarnAt] or the soft
	// limit is reached or at most a fifth of a limit remains.
	NearLimit
	// OnDenial sets them on denials only.
	OnDenial
	// Never sets none.
	Never
)

func (w HeadersWhen) validate() error {
	if w > Never {
		return configError("HeadersWhen", "is unknown")
	}
	return nil
}

// headerStyle says how a limiter writes its headers.
type headerStyle struct {
	dialects Headers
	when     HeadersWhen
	policy   string // the RateLimit-Policy field of draft-11, unless it varies; "" if clients are told of no limit
	varies   bool   // the policy depends on the request
}

// newHeaderStyle returns the style of a limiter. varies is set if it is known already that the policy does.
func newHeaderStyle(dialects Headers, when HeadersWhen, varies bool, limits []limit) headerStyle {
	style := headerStyle{dialects: dialects, when: when, varies: varies}
	if style.dialects == 0 {
		style.dialects = Draft11
	}
	var dst []byte
	for i := range limits {
		l := &limits[i]
		if style.varies = style.varies || l.choice > 0 || l.tiers != nil || l.scaling != nil || l.classes != nil || len(limits) > 1 && l.optional(); style.varies {
			return style
		}
		if !l.shadow && !l.hidden {
			dst = append(separate(dst), describe(&l.rule)...)
		}
	}
	style.policy = string(dst)
	return style
}

// SetHeaders writes the rate limit headers of a response: the limits in the dialects of
// Config.Headers, the warning of [Limit.WarnAt] or [Limit.Soft], Retry-After on a
// denial, and WWW-Authenticate where a credential is missing. Call it before the handler writes.
//
// If another limiter has written headers already, the response says what one limiter of all
// these limits would say:
//   - Fields that are lists get further members. Of a limit of the same name, such as one that is
//     asked twice at different costs, they show the member with less remaining, or on a denial
//     that of the limit that denies.
//   - Fields for one limit keep the limit with less remaining. On a denial they are replaced by
//     those of the limit that denies, or removed if this limiter writes none: so h should have
//     a method Del(name string), as http.Header has. Those of [XQuota] are replaced only by another
//     calendar limit: what remains of a month is true whatever else denies.
//   - The warning keeps the limit with more use, one over its soft limit first. A denial has none.
//   - Retry-After keeps the longer wait.
//
// Limits in shadow mode and hidden ones don't show, and neither do limits that did not apply. A field has at most 768 bytes,
// so that a response's header fits the buffers of proxies. Of more limits, it names those that deny, and then
// those with the fewest units remaining.
func (d *Decision) SetHeaders(h Header) { d.setHeaders(h, nil) }

// setHeaders is SetHeaders with memory for the fields of draft-11; nil if they are to have their own.
func (d *Decision) setHeaders(h Header, room *seam.HeaderRoom) {
	if d.limiter == nil || d.Reason == ReasonBypassed || (d.Reason == ReasonWithinLimit || d.Reason == ReasonShadowed) && d.count == 0 {
		return // no limit applied
	}
	if !d.Allowed {
		removeSingle(h)
	}
	style := &d.limiter.headers
	if d.shows(style.when) {
		if style.dialects&Draft11 != 0 {
			d.setDraft11(h, style, room)
		}
		if style.dialects&^Draft11 != 0 {
			d.setSingle(h, style.dialects)
		}
		if r := d.warning(); r != nil && d.Allowed && r.outranks(h.Get(headerWarning)) {
			h.Set(headerWarning, string(appendWarning(nil, r)))
		}
	}
	if d.Reason == ReasonMissingKey {
		d.setChallenge(h)
	}
	if seconds := d.RetryAfterSeconds(); seconds > 0 {
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
			if r.told() && (r.WarnLevel > 0 || r.Soft || r.Remaining <= r.Usual(r.Rule)/5) {
				return true
			}
		}
		return !d.Allowed
	case OnDenial:
		return !d.Allowed
	}
	return false
}

// removeSingle removes what limiters further out have written of a single limit that allowed
// the request, for a denial by another: a client would read there that it has units left.
func removeSingle(h Header) {
	m, isMap := h.(seam.HeaderMap)
	if isMap && len(m) == 0 {
		return
	}
	draft07 := strings.HasPrefix(h.Get(headerLimit), "limit=")
	if isMap {
		for name := range m {
			if isSingle(name, draft07) {
				delete(m, name)
			}
		}
	} else if r, ok := h.(interface{ Del(name string) }); ok {
		for name := range singles {
			if isSingle(name, draft07) {
				r.Del(name)
			}
		}
	}
}

// optional reports whether there are requests that the limit does not apply to.
func (l *limit) optional() bool { return len(l.when) > 0 || l.missing == SkipLimit }
