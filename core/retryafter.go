package core

// RetryAfterSeconds returns RetryAfter as the Retry-After header has it, for a body of your own:
// in whole seconds, rounded up, and at least 1. It is 0 if the decision is no denial, or if
// waiting can't help; there is no header then. The header has the longest wait of all limiters that
// the request passed, and this is the wait of one.
func (d *Decision) RetryAfterSeconds() int64 {
	if d.Allowed || d.RetryAfter == 0 {
		return 0
	}
	return max(seconds(d.RetryAfter), 1)
}
