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
// once (see [core.Limit.OncePer]) leaves a mark: a small string of its own in the
// same hash slot, which expires with its ttl. Redis 5 or later is
// needed; the commands used are EVALSHA, EVAL, and within the script TIME, GET,
// MGET, PSETEX and DEL. Only a list of blocked clients takes SCAN besides.
//
// # Round trips
//
// A check is sent at once while fewer than two round trips to its server are
// under way. Beyond that, checks wait for the next one and are decided with it,
// up to 64 different requests in a call of the script and equal ones as one: the
// more come at once, the less each costs. Every check returns by its own
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
// anywhere. Checks whose keys are in different slots go out together, one call
// per slot; when one slot denies, what others charged is given back at once. In
// between, for about a round trip, a concurrent request may see the charge and
// be denied: never is more let through than the limits allow. A repeat of an
// operation may see its mark, and pass although the charge is given back. If a node fails
// between the two steps, its charge stays. A hash tag in [Prefix] brings all
// keys to one slot and avoids all this, at the price of one node's capacity.
//
// Masters are asked, and never replicas, whatever the client is set to. A slot
// that moves is followed. Of a Ring, a key stays with its shard, up or down.
//
// # Failure
//
// An error of any method is a [core.StoreError] with a class, and means that the
// answer is unknown: the check may have been charged or not. It is not sent
// again. A [core.Limiter] then decides by each limit's outage policy. A server
// that fails five times in a row, or takes nearly all of the time it has, is not
// asked any more but probed, about twice a second, until it answers.
package redisstore
