package core

// Penalty blocks a client that exceeds the limit again and again: the After-th
// denial by this limit within Within begins a block, during which every request
// of that key is denied under this limit, as [ReasonBlocked], whether or not the
// limit has room. A further block lasts Factor times as long as the one before
// it, up to Max; once Max has passed after the last one, all is forgiven:
//
//	core.PerMinute(5).SlidingLog().By(keyfuncs.ClientIP()).Named("login").
//		Penalty(core.Block{After: 10, Within: time.Hour, For: 15 * time.Minute})
//
// What counts is a denial by this very limit: the request's own cost did not fit
// it. A request that another limit denies, a Peek and a cost of 0 do not. While a
// client is blocked its requests charge nothing, count nothing and extend
// nothing, and all limits of a blocked request are spared, as with any denial. A
// request of cost 0 is not blocked; one that repeats an operation is, although
// [Limit.OncePer] would let it pass an exhausted limit. RetryAfter is the time until the block ends or,
// if that is longer, until the limit has room: who waits for it is let through.
//
// Requests that lack the key and so share a bucket ([ShareBucket]) are denied by the
// limit, and never blocked: one of these clients could otherwise lock out all of
// them. Choose the key with the same care: a block of keyfuncs.Everyone is one of
// everybody, and one of an unverified API key or user name can be brought upon its
// owner by anyone.
//
// Counting and blocking are part of the decision, in the same round trip, and
// exact however many processes decide. So the limit's denials are not repeated
// from a redisstore.DenialCache, and nothing is prefetched: each request of a flood
// asks the store. [Limiter.Blocks] lists who is blocked, [Limiter.Unblock] lifts a
// block and [Limiter.Block] sets one.
//
// With [Limit.Wait] it goes for a token bucket alone, which queues: requests that
// wait under other limits are asked for again and again. No request waits for the
// end of a block. Under a [Concurrent] limit a denial for want of a slot counts.
//
// In shadow mode blocks are counted and reported, and deny nobody; a request that
// waits for another limit counts each time it is asked for. The numbers of
// [Limit.Tiers] don't change the penalty. In an outage the process that stands in
// for the store counts and blocks by itself, in its own memory; neither knows of
// the other's blocks. With several processes that is each for itself. Refunds
// and charges leave the penalty as it is; [Limiter.Reset] forgets it.
func (l Limit) Penalty(b Block) Limit {
	l.numbers.Block, l.numbers.hasPenalty = b, true
	return l
}

// unpenalized returns r for requests that share a bucket because they lack the key:
// they have nothing in common for which one could be blocked for another.
func (l *limit) unpenalized(r *Rule) *Rule {
	return loadOrMake(&l.variants.get(r).unpenalized, func() Rule {
		n := r.Numbers
		n.Block = Block{}
		return derive(r, n)
	})
}
