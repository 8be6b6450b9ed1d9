package core

// Penalty blocks repeat offenders. The Block.After-th denial of a key by this limit
// within Block.Within begins a block. While it lasts, this limit denies every request
// of the key with [ReasonBlocked], whether or not it has room. Each further block lasts
// Block.Factor times as long as the one before, up to Block.Max. Once Block.Max has
// passed after the last block, all is forgiven.
//
//	core.PerMinute(5).SlidingLog().By(keyfuncs.ClientIP()).Named("login").
//		Penalty(core.Block{After: 10, Within: time.Hour, For: 15 * time.Minute})
//
// A denial counts when the request's cost did not fit this limit. Denials by other
// limits, [Limiter.Peek] and requests of cost 0 don't count. A blocked request charges
// no limit, counts as no denial and extends no block. Requests of cost 0 are not
// blocked. Repeats of an operation are, even though [Limit.OncePer] would let them pass
// an exhausted limit. RetryAfter is the time until the block ends or until the limit
// has room, whichever is longer; a client that waits for it is let through. There is none for
// a cost that never fits. A repeat that is no longer known when the block ends waits as a new
// operation does.
//
// # Security
//
// Requests without the key, which share a bucket ([ShareBucket]), are denied but never
// blocked: otherwise one of these clients could lock out all of them. Choose the key
// with the same care. A block of keyfuncs.Everyone blocks everyone. An unverified API
// key or user name is attacker-controlled: anyone can get its owner blocked.
//
// # Details
//
// Counting and blocking are part of the decision, in the same round trip, and exact
// over all processes. So redisstore caches no denial of this limit before the key is blocked. If it
// is set to prefetch, a denial does not count while processes hold quota of the key, and a block
// by hand can take effect later; see redisstore.Prefetch. [Limiter.Blocks] lists blocked
// clients, [Limiter.Block] sets a block and [Limiter.Unblock] lifts it.
// [Limiter.Reset] forgets the penalty; refunds and [Spend] leave it as it is.
//
// No request waits for the end of a block. [Limit.Wait] can be combined with a penalty
// on a token bucket only, which queues: under other algorithms a waiting request asks
// again, and each denial would count. Under a [Concurrent] limit, a denial for want of
// a slot counts.
//
// In shadow mode blocks are counted and reported, but deny no request. A request that
// waits for another limit counts each time it asks. [Limit.Tiers] don't change the
// penalty. During an outage, each process counts and blocks in its own memory; the
// store and the processes don't learn of each other's blocks.
func (l Limit) Penalty(b Block) Limit {
	l.settings.set(setPenalty)
	l.numbers.Block, l.numbers.hasPenalty = b, true
	return l
}
