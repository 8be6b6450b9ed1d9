package redisstore

// What users of the store can set: its key prefix, its cache of denials and its
// prefetching. The zero value of each type is a good default.

import (
	"fmt"
	"strings"
	"time"

	"github.com/weblimit/weblimit/internal/prefetch"
)

// Config holds the settings of a [Store]. Its zero value suits most users.
type Config struct {
	// Prefix is what the store's Redis keys begin with. Stores with different
	// prefixes share nothing. A hash tag in the prefix, such as "{limits}:", puts
	// all keys into one slot of a Cluster. Then one node decides all limits of a
	// request together, atomically. New panics on an empty hash tag, "{}": a Cluster then
	// spreads the keys of one client over several slots. Defaults to DefaultPrefix.
	Prefix string

	// DenialCache repeats denials without asking Redis. Defaults to a cache of
	// DefaultDenials denials that are repeated for up to DefaultDenialAge.
	DenialCache DenialCache

	// Prefetch lets the process take quota of hot keys ahead of time. Defaults to
	// no prefetching.
	Prefetch Prefetch
}

// Defaults of a [Config].
const (
	// DefaultPrefix is what the store's keys begin with.
	DefaultPrefix = "weblimit:"

	// DefaultDenialAge is how long a denial is repeated without asking Redis.
	DefaultDenialAge = time.Second

	// DefaultDenials is how many denials are kept. One takes some 300 bytes.
	DefaultDenials = 1 << 14

	// DefaultPrefetchAge is how long a process may hold units that it has prefetched.
	DefaultPrefetchAge = 100 * time.Millisecond
)

// validate returns the config with its defaults filled in. It panics if a value
// makes no sense.
func (c Config) validate() Config {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if _, tagged, found := strings.Cut(c.Prefix, "{"); found && strings.HasPrefix(tagged, "}") {
		panic(fmt.Sprintf("weblimit: redisstore.Config: Prefix must not have an empty hash tag, got %q", c.Prefix))
	}
	c.DenialCache = c.DenialCache.validate()
	c.Prefetch = c.Prefetch.validate()
	return c
}

// DenialCache sets how long the store repeats a denial without asking Redis, and
// how many denials it keeps. A request that Redis denied stays denied until its
// Retry-After has passed, unless somebody gives units back. So a client that
// floods costs Redis one call per Age and process.
//
// # What is late
//
// Refunds, charges and resets through the same Store take effect at once. What
// another process gives back takes effect within a round trip or so: Redis publishes
// the key, and the Store subscribes to that. The same holds for a record that another
// process rewrites because its limit was raised. A message that is lost, and all of
// them where the Store can't subscribe, cost at most the denial's Age. An event of
// kind [EventInvalidationOff] says so once: the user lacks a permission (see
// docs/run/redis.md), a proxy in between has no SUBSCRIBE, or the client is a Ring or a
// wrapper.
//
// A denial is never repeated for longer than Redis said, by the process's monotonic
// clock. The Retry-After of a repeated denial can be too long by the time that Redis's
// answer took to arrive.
//
// The subscription is one connection and one goroutine. Both begin with the first denial
// that is cached, and end a minute and an Age after the last one, or with the client or the Store.
//
// # What is not cached
//
//   - Denials of a concurrency limit, since a slot can become free at any moment.
//   - Requests with an operation's key (see core.Limit.OncePer), which may have
//     been charged already.
//   - Requests that a limit with a penalty applies to, since each denial counts. Once
//     the key is blocked, none does, and the block is repeated until it ends. A process
//     that is not subscribed asks Redis each time, since a block can be lifted at any
//     moment.
//   - Denials caused by a tentative charge; see the package's documentation on
//     Clusters.
//
// The cache is bounded. Keys that are used once do not displace denials that are
// in use.
type DenialCache struct {
	// Disabled switches the cache off: Redis is asked each time. Then Age and Size
	// are ignored. Defaults to false.
	Disabled bool

	// Age is how long a denial is repeated at most. New panics if it is negative.
	// Defaults to DefaultDenialAge.
	Age time.Duration

	// Size is how many denials are kept at most. New panics if it is negative or
	// from 1 to 7. Defaults to DefaultDenials.
	Size int
}

func (c DenialCache) validate() DenialCache {
	if c.Age == 0 {
		c.Age = DefaultDenialAge
	}
	if c.Size == 0 {
		c.Size = DefaultDenials
	}
	if !c.Disabled && (c.Age < 0 || c.Size < denialWays) {
		panic(fmt.Sprintf("weblimit: redisstore.DenialCache: Age must not be negative and Size must be at least %d, got %v and %d", denialWays, c.Age, c.Size))
	}
	return c
}

// Prefetch lets each process take a slice of a hot key's quota from Redis ahead of
// time, and decide by itself until the slice is spent or MaxAge has passed. Then
// the process returns what is left. Prefetching takes a key past what one Redis
// core can decide, and saves the round trip. Without it, Redis decides each
// request.
//
// # Which keys
//
// A key is hot when Redis has granted this process 64 requests of it within
// MaxAge. A slice is as large as what the process used in the last MaxAge, but the
// process never holds more than Fraction of what remained when it took the slice.
// Slices good for fewer than 4 requests are not taken: Redis decides the last units
// itself, exactly.
//
// Each check of a request uses its own key's slice, and Redis is asked for the
// others only. With a global limit and one per client, only the latter costs Redis
// anything.
//
// Not prefetched are sliding logs, calendar windows, concurrency limits,
// operations that are charged once (see core.Limit.OncePer) and checks of cost 0.
// At most 1,024 keys have slices at a time. Keys that are asked for seldom do not
// displace them.
//
// # Bounds
//
// A process grants only units that Redis has charged. What can be wrong is when
// they are granted:
//
//   - Fixed and sliding windows are never exceeded: a slice ends with the window
//     that it was charged in.
//   - A token bucket can grant more than its burst, since a unit can be spent later
//     than it was charged: at most processes × Fraction × burst more, and no later
//     than the slice lasts. In simulations it was never more than the bucket
//     regains in that time.
//   - Redis may deny a request while other processes hold units: at most those, and
//     at most while their slices last. As each process takes at most Fraction of
//     what remains, n processes leave at least (1 − Fraction)^n of a window's quota
//     to the others. 100 processes with a Fraction of 0.01 hold at most 63 % of it,
//     and only if each is that busy.
//
// A slice lasts for MaxAge, but no longer than an eighth of the limit's window, or
// of the time in which its bucket fills.
//
// When a process dies, its units stay charged until the window is over or the
// bucket has refilled. The same holds for units whose return fails. Both lead to
// more denials, never to more grants. A process that is asked for nothing holds
// nothing one MaxAge later, so there is nothing to close. A request that Redis
// denies takes nothing from a slice.
//
// Slices run on the process's monotonic clock. Its time of day does not matter,
// and a clock that runs slow by up to 0.1 % is allowed for. A Reset drops this
// process's slices of the key, while other processes may spend and return theirs
// for up to MaxAge.
//
// The result of a check that a slice has decided is an estimate. Remaining is what
// Redis last had left, plus what time has given back since and what this process
// holds. At is never later than Redis's clock. [Store.Peek] returns what Redis has
// left, without what processes hold.
//
// # Penalties
//
// Limits with a penalty (see core.Limit.Penalty) are prefetched like others, in a call of
// their own. What a slice grants was charged, so it changes no count of denials. A denial
// always comes from Redis, which counts it once, with three exceptions in time:
//
//   - While processes hold units of the key, a denial may be due to these. It counts
//     towards no block. That lasts for up to two MaxAge after the last slice was taken.
//   - No more slices of the key are taken from then on, by any process, for Block.Within;
//     nor while a denial counts, nor after a block, until it is forgiven. So the denials of
//     a client are left out for at most two MaxAge in each Block.Within, and no block
//     by denials begins while anybody holds units.
//   - core.Limiter.Block ends the slices of this process at once, and those of others
//     within a round trip or so, by the subscription that [DenialCache] describes. If the
//     message is lost, or the Store can't subscribe, a blocked client can spend what is
//     held, for no longer than the slice lasts. What is left is returned.
//
// Units that a process took with it when it died can lead to denials that count, until
// the window is over or the bucket has refilled.
//
// # Outages
//
// While Redis does not answer, processes decide by their slices until these are
// spent or too old.
type Prefetch struct {
	// Fraction is the part of what remains that one process may hold. About
	// 1 / processes suits most. New panics unless it is 0 or from 0.000001 to 1.
	// Defaults to 0: nothing is prefetched.
	Fraction float64

	// MaxAge is how long a process may hold what it has not spent. From 100ms to 1s
	// suit most. New panics if it is set to less than a millisecond, or without a
	// Fraction. Defaults to DefaultPrefetchAge.
	MaxAge time.Duration
}

func (p Prefetch) validate() Prefetch {
	if p == (Prefetch{}) {
		return p
	}
	if p.MaxAge == 0 {
		p.MaxAge = DefaultPrefetchAge
	}
	// As it reads, the condition is false for NaN.
	if !(p.Fraction >= 1e-6 && p.Fraction <= 1) || p.MaxAge < time.Millisecond {
		panic(fmt.Sprintf("weblimit: redisstore.Prefetch: Fraction must be from 0.000001 to 1 and MaxAge at least 1ms, got %v and %v", p.Fraction, p.MaxAge))
	}
	return p
}

// prefetcher returns what decides by slices of the store's quota, or nil if
// nothing is to be prefetched.
func (p Prefetch) prefetcher(s *Store) *prefetch.Prefetcher {
	if p.Fraction == 0 {
		return nil
	}
	return prefetch.New(prefetchSource{s}, prefetchClock{}, p.Fraction, p.MaxAge, s.patience.background)
}
