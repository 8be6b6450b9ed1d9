package core

import "github.com/weblimit/weblimit/core/store"

// TokenBucket refills evenly, all the time: quota units per window, up to the
// burst. It spreads clients out best and costs the least, and is the default.
func (l Limit) TokenBucket() Limit {
	l.numbers.Algorithm = store.TokenBucket
	return l
}

// FixedWindow counts in windows that are aligned to the epoch: a minute's begins
// at second 0, a day's at 0:00 UTC. Easy to explain and right for quotas such as
// 1000 a day. Around the edge of two windows up to twice the quota can pass; see
// [Limit.Jitter] for what happens at the edge.
func (l Limit) FixedWindow() Limit {
	l.numbers.Algorithm = store.FixedWindow
	return l
}

// SlidingWindow smooths the edge of fixed windows: it counts in two, and lets
// the earlier one weigh as much as it overlaps with the window that ends now.
func (l Limit) SlidingWindow() Limit {
	l.numbers.Algorithm = store.SlidingWindow
	return l
}

// SlidingLog remembers each request for one window: exact over any stretch of
// time, which is what a login form wants, for quotas up to 5000. Memory per key
// grows with the quota, and so does the time of a check: in Redis some 60 ns for
// each request that it remembers, 0.3 ms for 5000.
func (l Limit) SlidingLog() Limit {
	l.numbers.Algorithm = store.SlidingLog
	return l
}

// Burst sets how many units can be spent at once by a client that saved them
// up: the capacity of the token bucket. The quota stays the long-run rate.
// Defaults to the quota.
func (l Limit) Burst(n int64) Limit {
	l.numbers.Burst, l.numbers.hasBurst = n, true
	return l
}

// Jitter shifts each key's windows by an offset of its own, so that not all
// clients come back in the same instant when a window ends. It belongs to
// FixedWindow and SlidingWindow.
func (l Limit) Jitter() Limit {
	l.numbers.Jitter = true
	return l
}
