package core

import (
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// The response fields of draft-ietf-httpapi-ratelimit-headers-11, an
// Internet-Draft. Names are in canonical form, as Go's http.Header keeps them;
// clients compare them without regard to case.
const (
	headerPolicy = "Ratelimit-Policy"
	headerLimit  = "Ratelimit"
)

// The parameters of draft-11, in one place since a later draft may rename them.
const (
	paramQuota     = ";q="  // RateLimit-Policy: the quota
	paramWindow    = ";w="  // RateLimit-Policy: the window in seconds
	paramUnit      = ";qu=" // RateLimit-Policy: the unit, if not requests
	paramRemaining = ";r="  // RateLimit: the units available
	paramEffective = ";t="  // RateLimit: the seconds within which these may be used
)

// appendRateLimit appends the member of the RateLimit field.
func (r *LimitResult) appendRateLimit(dst []byte) []byte {
	dst = appendQuoted(dst, r.Rule.Name)
	dst = append(dst, paramRemaining...)
	dst = strconv.AppendInt(dst, min(max(r.Remaining, 0), maxFieldInteger), 10)
	dst = append(dst, paramEffective...)
	return strconv.AppendInt(dst, max(seconds(r.Window), 1), 10)
}

// policies caches the RateLimit-Policy values of tiers and other rules that depend on
// the request. It is safe for concurrent use.
type policies struct {
	known sync.Map // of *Rule to string
	count atomic.Int64
}

// maxPolicies bounds the cache: a Tiers function may make up new numbers for each
// request.
const maxPolicies = maxVariants

// of returns the value for a rule.
func (p *policies) of(r *Rule) string {
	if known, ok := p.known.Load(r); ok {
		return known.(string)
	}
	policy := string(describe(r))
	if p.count.Load() < maxPolicies {
		if _, before := p.known.LoadOrStore(r, policy); !before {
			p.count.Add(1)
		}
	}
	return policy
}

// describe returns a rule as an item of RateLimit-Policy. A bucket is described by its
// capacity and the time it takes to fill, so that the remaining r is never above q. A
// window that is not a whole number of seconds is left out rather than rounded.
func describe(r *Rule) []byte {
	dst := appendQuoted(nil, r.Name)
	dst = append(dst, paramQuota...)
	if r.Wait > 0 && r.Burst < r.Quota { // its capacity says nothing about queued requests
		dst = strconv.AppendInt(dst, min(r.Quota, maxFieldInteger), 10)
		return appendWindow(dst, r.Window)
	}
	dst = strconv.AppendInt(dst, min(r.Burst, maxFieldInteger), 10)
	if r.Algorithm == store.Concurrency {
		dst = append(dst, paramUnit...)
		dst = append(dst, `"concurrent-requests"`...)
	} else if fill, exact := fillTime(r); exact {
		return appendWindow(dst, fill)
	}
	return dst
}

func appendWindow(dst []byte, w time.Duration) []byte {
	if w%time.Second != 0 {
		return dst
	}
	dst = append(dst, paramWindow...)
	return strconv.AppendInt(dst, seconds(w), 10)
}

// fillTime returns how long the rule takes to grant its burst, and whether that is a
// whole number of microseconds. Except for token buckets it is the window. Calendar
// windows have no fixed length.
func fillTime(r *Rule) (fill time.Duration, exact bool) {
	if r.Algorithm == store.Calendar {
		return 0, false
	}
	if r.Algorithm != store.TokenBucket {
		return r.Window, true
	}
	high, low := bits.Mul64(uint64(r.Burst), uint64(r.Window.Microseconds()))
	quotient, rest := bits.Div64(high, low, uint64(r.Quota))
	return time.Duration(quotient) * time.Microsecond, rest == 0
}
