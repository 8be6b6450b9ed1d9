package core

// Soft sets a soft limit of n units, at least 1 and below the burst, which stays the
// hard limit. A request whose charge brings the use above n units is allowed, but
// [LimitResult.Soft] and [Decision.OverSoft] report it, so that the handler can answer
// late, from a cache or with less. Its response has the header
//
//	X-RateLimit-Warning: over soft limit; policy="name"; used=85%
//
// where a warning of [Limit.WarnAt] begins with "approaching limit". The percentage is
// of the burst. A tier has its own soft limit, or none. Defaults to none.
func (l Limit) Soft(n int64) Limit {
	l.settings.set(setSoft)
	l.numbers.Soft, l.numbers.hasSoft = n, true
	return l
}

// OverSoft reports whether the request was allowed and is over the soft limit of any
// enforced limit; see [Limit.Soft].
func (d *Decision) OverSoft() bool {
	results := d.Results()
	for i := range results {
		if results[i].Soft && results[i].Enforced() {
			return d.Allowed
		}
	}
	return false
}
