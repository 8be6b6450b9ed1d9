// Package redisstore keeps the state of limits in Redis, so that any number of
// processes share them:
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store := redisstore.New(rdb)
//
// All checks of a request are decided by one Lua script in one round trip, all
// or nothing, on Redis's own clock: processes whose clocks differ still agree.
// Everything that is known of a client key, under all limits, is one Redis
// string, which expires when it says nothing any more. An operation that is charged
// once (see core.Limit.OncePer) leaves a mark: a small string of its own in the
// same hash slot, which expires with its ttl. Redis 5 or later is
// needed; the commands used are EVALSHA, EVAL, and within the script TIME, GET,
// MGET, PSETEX and DEL. Only a list of blocked clients takes SCAN besides.
//
// # Round trips
//
// A check is sent at once while fewer than two round trips to its server are
// under way. Beyond that, checks wait for the next one and are decided with it,
// up to 64 different requests in a call of the script and equal ones as one: the
// more come at once, the less each costs. Sliding logs and concurrency limits cost by
// their length: those with 4,000 entries and more go one at a time. Every check returns by its own
// deadline, and a server that stalls holds up no more than it was asked.
//
// A denial is repeated for up to a second without asking Redis: see
// [DenialCache].
//
// # Leases
//
// With [Lease], a process takes a slice of a hot key's quota ahead of time and
// decides by itself: that takes a key past what one Redis core can decide. Nothing
// is granted that Redis has not charged; the option says what can be late.
//
// # Cluster and Ring
//
// Limits with the same key are in one slot, and are decided atomically as
// anywhere. Checks whose keys are in different slots are decided in steps of a round
// trip each, two for two slots and three for any more: first the slot of a limit with
// many keys, such as one for each client, at last the one that most clients share.
// A denial ends it, and what was charged is given back. So a client that is over its
// own limit takes nothing from a common one, not for a moment, and what a common
// limit has charged is final. Never is more let through than the limits allow.
//
// Until all slots have granted, the charges of the first ones are tentative, and
// their keys say so. A request that is denied for them is asked for again, twice; a
// denial that is left is not kept, counts towards no block, and has a Retry-After of
// 10 ms at most. Where a slot that comes later has denied within a second, all slots
// are asked before any is charged: that is one step more. The order is learned from
// how many keys a limit has; see docs/guarantees.md for what a client can still do.
//
// A repeat of an operation may see its mark, and pass although the charge is given
// back. If a node or the process fails between the steps, what was charged stays. A
// hash tag in [Prefix] brings all keys to one slot: then there is one step, at the
// price of one node's capacity.
//
// A client that can make up its key can choose its slot, and so the node that it
// burdens, unless the key is made with keyfuncs.Func.WithSecret.
//
// Masters are asked, and never replicas, whatever the client is set to. A slot
// that moves is followed. Of a Ring, a key stays with its shard, up or down.
//
// # Failure
//
// An error of any method is a [store.Error] with a class, and means that the
// answer is unknown: the check may have been charged or not. It is not sent
// again. A core.Limiter then decides by each limit's outage policy. A server
// that fails five times in a row, or takes nearly all of the time it has, is not
// asked any more but probed, about twice a second, until it answers.
package redisstore
