package llmlimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core"
)

// longestWait is the longest wait that the libraries of OpenAI and Anthropic keep to. They pass over a longer one, and
// come back within seconds, unless they are told not to.
const longestWait = time.Minute

// SetHeaders writes a decision as the libraries of a provider read it. Of several limits of a measure it tells the one
// with the fewest units left, or on a denial the one that denies. Limits that the meter has not made are left out, and
// so are limits of [Money], hidden ones and those in shadow mode, and all of a decision that asked no store.
//
//	OpenAI      x-ratelimit-limit-requests: 60, x-ratelimit-remaining-requests, x-ratelimit-reset-requests: 1.2s, and -tokens
//	Anthropic   anthropic-ratelimit-requests-limit: 60, -remaining, -reset: 2026-07-01T12:00:00Z, and tokens, input-tokens, output-tokens
//
// A denial gets retry-after-ms, which both read before Retry-After, and x-should-retry: false where they would come back
// too early or in vain: they keep to no wait of a minute or longer.
func (m *Meter) SetHeaders(h http.Header, api API, d core.Decision) {
	switch api {
	case OpenAI:
		for _, measure := range [...]Measure{Requests, Tokens} {
			if r := m.tightest(&d, measure); r != nil {
				name := measure.String()
				h.Set("X-Ratelimit-Limit-"+name, strconv.FormatInt(r.Rule.Burst, 10))
				h.Set("X-Ratelimit-Remaining-"+name, strconv.FormatInt(max(r.Remaining, 0), 10))
				h.Set("X-Ratelimit-Reset-"+name, roundUp(r.ResetAfter, time.Millisecond).String())
			}
		}
	case Anthropic:
		for _, measure := range [...]Measure{Requests, Tokens, InputTokens, OutputTokens} {
			if r := m.tightest(&d, measure); r != nil {
				prefix := "Anthropic-Ratelimit-" + measure.String()
				h.Set(prefix+"-Limit", strconv.FormatInt(r.Rule.Burst, 10))
				h.Set(prefix+"-Remaining", strconv.FormatInt(max(r.Remaining, 0), 10))
				at := time.UnixMicro(r.At).Add(r.ResetAfter + time.Second - 1).UTC()
				h.Set(prefix+"-Reset", at.Truncate(time.Second).Format(time.RFC3339))
			}
		}
	}
	if d.Allowed || d.Status() != http.StatusTooManyRequests {
		return
	}
	if d.RetryAfter > 0 {
		h.Set("Retry-After-Ms", strconv.FormatInt(roundUp(d.RetryAfter, time.Millisecond).Milliseconds(), 10))
	}
	if d.RetryAfter == 0 || d.RetryAfter >= longestWait {
		h.Set("X-Should-Retry", "false")
	}
}

// tightest returns the result of a measure that matters most, or nil if there is none.
func (m *Meter) tightest(d *core.Decision, measure Measure) (found *core.LimitResult) {
	results := d.Results()
	for i := range results {
		r := &results[i]
		if is, ok := m.measure(r.Rule.Name); !ok || is != measure || !r.Enforced() || r.Hidden || r.Reason != core.ReasonUndecided {
			continue
		}
		if d.Allowed && !r.Allowed {
			continue // of a choice, one that has not paid
		}
		if found == nil || found.Allowed && !r.Allowed || found.Allowed == r.Allowed && r.Remaining < found.Remaining {
			found = r
		}
	}
	return found
}

// roundUp returns a time in whole units.
func roundUp(d, unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }
