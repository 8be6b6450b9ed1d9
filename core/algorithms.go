package core

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/limittext"
)

// algorithmWords are the algorithms that the text of a limit names: by a word, behind which a second one may stand.
var algorithmWords = limittext.Words{
	{Word: "fixed", Second: "window", Algorithm: store.FixedWindow},
	{Word: "sliding", Second: "window", Algorithm: store.SlidingWindow},
	{Word: "log", Algorithm: store.SlidingLog},
	{Word: "bucket", Algorithm: store.TokenBucket},
}

// choose sets the algorithm. A limit for which two were chosen is an error when it is used.
func (n *numbers) choose(a store.Algorithm) {
	if n.chosen != 0 && n.chosen != a {
		n.other = n.chosen
	}
	n.Algorithm, n.chosen = a, a
}

// TokenBucket refills continuously: quota units per window, up to the burst. It spaces
// requests most evenly and costs the least. It is the default. In any window at most the
// burst and the quota together pass: twice the quota without [Limit.Burst]. After the
// burst, requests pass at the pace of the refill.
//
// A limit has one algorithm: a second decorator that chooses another is an error when the
// limit is used.
func (l Limit) TokenBucket() Limit {
	l.numbers.choose(store.TokenBucket)
	return l
}

// Burst sets the capacity of the token bucket: how many units a client that has saved
// them up can spend at once. The long-run rate stays the quota per window. At least
// 1. Defaults to the quota.
func (l Limit) Burst(n int64) Limit {
	l.settings.set(setBurst)
	l.numbers.Burst, l.numbers.hasBurst = n, true
	return l
}

// FixedWindow counts in windows that are aligned to the epoch: a minute's begins at
// second 0, a day's at 0:00 UTC. It is easy to explain and suits quotas such as 1000 a
// day. Up to twice the quota can pass around the edge of two windows. [Limit.Jitter]
// keeps clients from all coming back at that edge; [Limit.FromFirstUse] has windows begin with a client's first
// request instead.
func (l Limit) FixedWindow() Limit {
	l.numbers.choose(store.FixedWindow)
	return l
}

// FromFirstUse makes the limit a fixed window that begins with a key's first use, and not with the clock: five hours
// from the first message, a week from the first request.
//
//	core.Per(100, 5*time.Hour).FromFirstUse().By(keyfuncs.User("user"))
//
// A window begins with the first charge of a key that has none, lasts for the limit's window, and is not prolonged by
// what is charged in it. When it is over, the next charge begins another, whenever that is. For a key without a window,
// headers, [Result].Window and [Result].ResetAfter say the whole window: that is how long one lasts which begins now. A
// denied request begins none, nor does one that costs nothing. If all that a window counts is given back, it is forgotten.
//
// A cost that is told late begins a window, too, if the request's own is over by then. So does what this process has
// granted in an outage, once the store answers again.
//
// Twice the quota can pass around the end of a window, as around the edge of a [Limit.FixedWindow]; no client can
// choose that end but by its first request. If the limit was a fixed window before, or becomes one, windows that have
// begun end when they were to end. Each key has its own windows, so [Limit.Jitter] is refused. Regions can't lease
// the units of such a limit: see [Limit.Regions].
func (l Limit) FromFirstUse() Limit {
	l.numbers.choose(store.FixedWindow)
	l.numbers.FromUse = true
	return l
}

// SlidingWindow smooths the edge of fixed windows. It keeps two counters, for the
// current window and the one before it. The earlier one is weighted by how much of it
// overlaps with the last window of time, as if its requests had been spread evenly. A
// client that spends the quota just before an edge, and then all that is freed, gets
// nearly twice the quota within a window.
func (l Limit) SlidingWindow() Limit {
	l.numbers.choose(store.SlidingWindow)
	return l
}

// SlidingLog remembers each request for one window, and so is exact over any stretch
// of time. It suits small quotas such as login attempts; the quota is at most 5000.
// Memory per key and the time of a check grow with the quota: on Redis by some 60 ns
// for each request that is remembered, 0.3 ms for 5000.
func (l Limit) SlidingLog() Limit {
	l.numbers.choose(store.SlidingLog)
	return l
}

// Jitter shifts the windows of each key by an offset that depends on the key, so that
// not all clients come back in the same instant. It needs FixedWindow or
// SlidingWindow.
func (l Limit) Jitter() Limit {
	l.numbers.Jitter = true
	return l
}
