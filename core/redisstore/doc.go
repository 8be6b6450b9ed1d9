// Package redisstore keeps the state of limits in Redis, so that any number of
// processes share them:
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store := redisstore.New(rdb)
//
// All checks of a request are decided by one Lua script in one round trip, all
// or nothing, on Redis's own clock: processes whose clocks differ still agree.
// Everything that is known of a client key, under all limits, is one Redis
// string, which expires when it says nothing any more. Redis 5 or later is
// needed; the commands used are EVALSHA, EVAL, and within the script TIME, GET,
// PSETEX and DEL.
//
// # Cluster and Ring
//
// Limits with the same key are in one slot, and are decided atomically as
// anywhere. Checks whose keys are in different slots go out together, one call
// per slot; when one slot denies, what others charged is given back at once. In
// between, for about a round trip, a concurrent request may see the charge and
// be denied: never is more let through than the limits allow. If a node fails
// between the two steps, its charge stays. A hash tag in [Prefix] brings all
// keys to one slot and avoids all this, at the price of one node's capacity.
//
// # Failure
//
// An error of any method means that the answer is unknown: the check may have
// been charged or not. It is not sent again. A [core.Limiter] then decides by
// each limit's outage policy.
package redisstore
