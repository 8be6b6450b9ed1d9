package core

import (
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// Headers is a set of dialects of rate limit headers, which can be combined for clients
// that know only one of them:
//
//	Headers: core.Draft11 | core.XRateLimit
//
// Draft11 lists all limits. The other dialects have room for one limit, the binding one of all
// limiters that decided the request; see [Decision.Binding] and [Decision.SetHeaders]. XQuota is
// about calendar limits only.
type Headers uint8

const (
	// Draft11 is RateLimit-Policy: "name";q=100;w=60 and RateLimit: "name";r=50;t=30, the
	// syntax of draft-ietf-httpapi-ratelimit-headers-11, an Internet-Draft.
	Draft11 Headers = 1 << iota
	// Draft07 is RateLimit: limit=100, remaining=50, reset=5, and
	// RateLimit-Policy: 100;w=60. It can't be combined with Draft11, whose fields
	// have the same names.
	Draft07
	// Draft03 is RateLimit-Limit: 100;w=60, RateLimit-Remaining: 50 and
	// RateLimit-Reset: 5, in seconds from now.
	Draft03
	// XRateLimit is X-RateLimit-Limit: 100, X-RateLimit-Remaining: 50 and
	// X-RateLimit-Reset in seconds since the epoch, as GitHub sends these three.
	XRateLimit
	// XRateLimitDelta is XRateLimit with X-RateLimit-Reset in seconds from now. It can't
	// be combined with XRateLimit.
	XRateLimitDelta
	// XQuota is X-Quota-Limit: 100000, X-Quota-Remaining: 99000 and X-Quota-Reset in seconds
	// since the epoch, when the next period begins. It tells of a calendar limit, such as
	// [PerMonth], and of no other, so it is for use beside another dialect. Of several
	// calendar limits it tells of the one with the fewest units remaining, or of the one that denies.
	// Responses without a calendar limit don't have it, and neither have those of an outage.
	XQuota

	allHeaders Headers = 1<<len(dialects) - 1
)

// dialect is what the rest of the package knows of a dialect; [Decision.setSingle] writes it.
type dialect struct {
	name   string   // of its constant
	fields []string // as its draft, or those who send them, spell them

	// binding is true if its fields are about the limit that binds and no other, so that a denial by
	// another limiter removes them.
	binding bool
}

// dialects has a row for each dialect, by the bit of Headers. Two that have a field in common exclude each other.
var dialects = [...]dialect{
	{name: "Draft11", fields: []string{"RateLimit", "RateLimit-Policy"}},
	{name: "Draft07", fields: []string{"RateLimit", "RateLimit-Policy"}, binding: true},
	{name: "Draft03", fields: []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}, binding: true},
	{name: "XRateLimit", fields: []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}, binding: true},
	{name: "XRateLimitDelta", fields: []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}, binding: true},
	{name: "XQuota", fields: []string{"X-Quota-Limit", "X-Quota-Remaining", "X-Quota-Reset"}},
}

// dialectNames are the texts of the bits of Headers.
var dialectNames = func() (names []string) {
	for _, d := range dialects {
		names = append(names, d.name)
	}
	return names
}()

func (h Headers) validate() error {
	if h&^allHeaders != 0 {
		return configError("Headers", "has an unknown dialect")
	}
	owner := map[string]string{} // the dialect that has a field
	for i, d := range dialects {
		if h&(1<<i) == 0 {
			continue
		}
		for _, field := range d.fields {
			if other := owner[field]; other != "" {
				return configError("Headers", "can't have both "+other+" and "+d.name+": their fields have the same names")
			}
			owner[field] = d.name
		}
	}
	return nil
}

// exposed are the names of all fields that limiters write, as they are spelled.
var exposed = func() (all []string) {
	for i, d := range dialects {
		if Headers(1<<i) == XQuota {
			all = append(all, "X-RateLimit-Warning") // where lists for CORS have always had it
		}
		for _, field := range d.fields {
			if !slices.Contains(all, field) {
				all = append(all, field)
			}
		}
	}
	return append(all, headerRetryAfter, "WWW-Authenticate")
}()

// ExposeHeaders returns the names of all headers that a limiter may set. A service
// whose headers are read by web pages of another origin lists them in
// Access-Control-Expose-Headers.
func ExposeHeaders() []string { return slices.Clone(exposed) }

// singles are the canonical names of the fields that may be about a single limit. Those that Draft11 has, too,
// are so only if Draft07 has written them.
var singles = func() map[string]bool {
	all := map[string]bool{headerWarning: true}
	for _, d := range dialects {
		for _, field := range d.fields {
			if d.binding {
				all[textproto.CanonicalMIMEHeaderKey(field)] = true
			}
		}
	}
	return all
}()

// isSingle reports whether a field is about one limit.
func isSingle(name string, draft07 bool) bool {
	return singles[name] && (draft07 || name != headerLimit && name != headerPolicy)
}

func configError(field, problem string) error {
	return fmt.Errorf("weblimit: Config.%s %s", field, problem)
}

// setSingle writes the dialects that have room for one limit.
func (d *Decision) setSingle(h Header, dialects Headers) {
	if dialects&XQuota != 0 {
		d.setQuota(h)
	}
	if dialects&^(Draft11|XQuota) != 0 {
		d.setOlder(h, dialects)
	}
}

// setOlder writes those of them that tell of the limit that binds.
func (d *Decision) setOlder(h Header, dialects Headers) {
	if !d.asked() {
		return
	}
	r := d.bindingTold()
	if r == nil {
		return
	}
	limit, left, reset := r.Rule.Burst, max(r.Remaining, 0), seconds(r.ResetAfter)
	if dialects&Draft07 != 0 && (!d.Allowed || !tighter(h.Get(headerLimit), left)) {
		h.Set(headerPolicy, policyItem(r.Rule))
		h.Set(headerLimit, fmt.Sprintf("limit=%d, remaining=%d, reset=%d", limit, left, reset))
	}
	if dialects&Draft03 != 0 {
		d.setThree(h, "Ratelimit", policyItem(r.Rule), left, reset)
	}
	if dialects&XRateLimitDelta != 0 {
		d.setThree(h, "X-Ratelimit", decimal(limit), left, reset)
	}
	if dialects&XRateLimit != 0 {
		at := time.UnixMicro(r.At).Add(r.ResetAfter)
		d.setThree(h, "X-Ratelimit", decimal(limit), left, integer.CeilDiv(at.UnixMicro(), 1e6))
	}
}

// setThree writes limit, remaining and reset, unless the request is allowed and another limiter
// has written a smaller or equal remaining.
func (d *Decision) setThree(h Header, prefix, limit string, left, reset int64) {
	if d.Allowed {
		if before, err := strconv.ParseInt(h.Get(prefix+"-Remaining"), 10, 64); err == nil && before <= left {
			return
		}
	}
	h.Set(prefix+"-Limit", limit)
	h.Set(prefix+"-Remaining", decimal(left))
	h.Set(prefix+"-Reset", decimal(reset))
}

// tighter reports whether a RateLimit field of draft-07 has a smaller or equal remaining.
func tighter(field string, left int64) bool {
	var limit, remaining, reset int64
	n, err := fmt.Sscanf(field, "limit=%d, remaining=%d, reset=%d", &limit, &remaining, &reset)
	return err == nil && n == 3 && remaining <= left
}

// policyItem returns a limit as drafts 03 to 07 write it: 100;w=60.
func policyItem(r *Rule) string {
	item := decimal(r.Burst)
	if r.Algorithm == store.Concurrency {
		return item // without a window
	}
	if fill, exact := fillTime(r); exact && fill%time.Second == 0 {
		item += ";w=" + decimal(seconds(fill))
	}
	return item
}
