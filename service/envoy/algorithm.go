package envoy

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Algorithm is how the limits of a domain count.
type Algorithm uint8

const (
	// FixedWindow counts from the start of each second, minute, hour, day, week, month of 30 days
	// or year of 365 days since 1970 in UTC, as envoyproxy/ratelimit does. Twice the limit can pass
	// around the end of a window.
	FixedWindow Algorithm = iota
	// SlidingWindow counts the last unit of time, by an estimate that weighs the window before.
	SlidingWindow
	// TokenBucket refills evenly, and holds requests_per_unit.
	TokenBucket
)

var algorithms = [...]string{FixedWindow: "fixed_window", SlidingWindow: "sliding_window", TokenBucket: "token_bucket"}

// String returns the name of the algorithm, such as "fixed_window".
func (a Algorithm) String() string {
	if int(a) < len(algorithms) {
		return algorithms[a]
	}
	return "unknown algorithm"
}

// MarshalText writes the name of the algorithm.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the name of an algorithm.
func (a *Algorithm) UnmarshalText(text []byte) error {
	for i, name := range algorithms {
		if name == string(text) {
			*a = Algorithm(i)
			return nil
		}
	}
	return fmt.Errorf("weblimit: envoy: unknown algorithm %q", text)
}

// windows are the lengths of units.
var windows = map[rls.RateLimitResponse_RateLimit_Unit]time.Duration{
	rls.RateLimitResponse_RateLimit_SECOND: time.Second,
	rls.RateLimitResponse_RateLimit_MINUTE: time.Minute,
	rls.RateLimitResponse_RateLimit_HOUR:   time.Hour,
	rls.RateLimitResponse_RateLimit_DAY:    24 * time.Hour,
	rls.RateLimitResponse_RateLimit_WEEK:   7 * 24 * time.Hour,
	rls.RateLimitResponse_RateLimit_MONTH:  30 * 24 * time.Hour,
	rls.RateLimitResponse_RateLimit_YEAR:   365 * 24 * time.Hour,
}

// limit returns the limit of a rule. A limit of 0 has a quota of 1, of which every cost that is asked
// of it is more; see rule.cost.
func (a Algorithm) limit(requests uint32, unit rls.RateLimitResponse_RateLimit_Unit) core.Limit {
	l := core.Per(int64(max(requests, 1)), windows[unit])
	switch a {
	case SlidingWindow:
		return l.SlidingWindow()
	case TokenBucket:
		return l.TokenBucket()
	}
	return l.FixedWindow()
}
