// Package redisstore keeps the state of limits in Redis, so that any number of
// processes share them:
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store := redisstore.New(rdb)
//
// One Lua script decides all checks of a request in one round trip, all or nothing,
// by Redis's own clock. So processes whose clocks differ still agree. All of a
// client's state, across every limit, is one Redis string, which expires when it is
// no longer needed. An operation that is charged once (see core.Limit.OncePer)
// leaves a mark: a small string of its own in the same hash slot, which expires too.
//
// The store needs Redis 5 or later. It uses the commands EVALSHA and EVAL, and within
// the script TIME, GET, MGET, PSETEX and DEL. Only [Store.Blocks] uses SCAN besides, and what ends
// cached denials and slices early SUBSCRIBE and PUBLISH.
//
// # Round trips
//
// A check is sent at once while fewer than two round trips to its server are under
// way. Other checks wait for the next round trip, which decides them together: up to
// 64 different requests in one call of the script, and equal requests as one. So the
// more requests come at once, the less each costs.
//
// Sliding logs and concurrency limits cost Redis by their length. Those with 4,000
// entries or more are decided one at a time.
//
// Every check returns by its own deadline. A server that stalls delays only the
// checks that need it.
//
// A denial is repeated for up to a second without asking Redis. What another process gives back
// ends it within a round trip or so, where the store can subscribe; see [DenialCache].
//
// # Prefetching
//
// With [Prefetch], a process takes a slice of a hot key's quota ahead of time and
// decides by itself. That takes a key past what one Redis core can decide. A process
// still grants only units that Redis has charged; see [Prefetch] for what can be late.
//
// # Cluster and Ring
//
// Limits with the same key are in one slot, and are decided atomically as on a single
// server. Checks whose keys are in different slots are decided in steps of a round
// trip each: two steps for two slots, three for any more. A denial ends the request, and
// what was charged before is given back. The limits never let more through than they
// allow.
//
// The slot of a limit with many keys, such as one per client, comes first. The slot that
// most clients share comes last. So a client that is over its own limit takes nothing from
// a shared one, not even for a moment. docs/run/guarantees.md has the details, what a failure
// between two steps leaves behind, and what a client can still do.
//
// A hash tag in [Config.Prefix] puts all keys into one slot: then there is one step, and
// one node has to decide all requests. Clients that can choose their key can choose its
// slot, and so the node that they burden. keyfuncs.Func.WithSecret prevents that.
//
// The store asks masters, and never replicas, whatever the client is set to. It
// follows a slot that moves. A key of a Ring stays with its shard, up or down.
//
// # Failure
//
// An error of any method is a [store.Error] with a class. It means that the answer is
// unknown: the check may or may not have been charged. It is not sent again. A
// core.Limiter then decides by each limit's outage action. A refund or charge that Redis
// certainly has not run is a [store.Undone], which a Limiter sends again later.
//
// If a server fails five times in a row, or takes nearly all of the time it has, the
// store stops asking it. It probes the server about twice a second until that answers,
// whether or not requests come. Five minutes after the last check it stops; the next check
// starts the probes again.
package redisstore
