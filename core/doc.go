// Package core decides rate limits and quotas: it holds the limits and their
// algorithms, the store in memory, the decision, and what HTTP clients are told
// of it. It knows no web framework; the adapters (nethttp, chilimit, ginlimit,
// echolimit, fiberlimit) translate between one and this package.
//
// # Limits
//
// A [Limit] says how many units per window, for whom, counted how:
//
//	core.PerMinute(300).By(keyfuncs.ClientIP())
//	core.PerSecond(60).Burst(120).By(keyfuncs.User("customer")).Named("customer")
//	core.PerDay(100_000).FixedWindow().By(keyfuncs.User("customer")).Named("daily")
//
// Which algorithm to choose:
//
//   - TokenBucket, the default: an even rate with room for bursts. Cheapest.
//   - FixedWindow: a quota per calendar minute, hour or day that everyone
//     understands. Twice the quota can pass around the edge of two windows.
//   - SlidingWindow: a fixed window without that edge, for traffic that is
//     roughly even.
//   - SlidingLog: exact over any stretch of time, for small quotas such as logins.
//   - PerMonth, PerCalendarDay and PerBillingMonth: fixed windows that begin when
//     the days and months of a time zone do, as contracts have it.
//
// [Concurrent] is a limit of another kind: so many requests at the same time.
//
// # Decisions
//
// A [Limiter] decides all its limits for one request together: all are charged,
// or, when one denies, none. What a denied request asked for is not counted, so
// hammering extends nothing, and waiting exactly Retry-After succeeds; only of a
// limit of requests at the same time is it no more than a hint. Limits can
// depend on the request: see [Limit.When], [Limit.CostBy], [Limit.Tiers] and
// [Limit.Reserve]; they can change by themselves: see [Limit.Scale]; and requests
// can pass uncounted: see Config.Bypass. A repeated operation is charged once, and
// a few repeats of it nothing, under a limit with [Limit.OncePer].
//
// # Before and after the handler
//
// A request that comes too early can wait for its turn instead of being denied: see
// [Limit.LeakyBucket], [Limit.Wait] and [Limit.SlowDown]. What it is charged can be
// settled when it has been answered: given back, by its outcome ([Limit.RefundOn]),
// or corrected to what it really cost ([Limit.Estimate] and [Charge]); slots of a
// [Concurrent] limit are free again then. Adapters do all of that. Those who ask
// with [Limiter.AllowKey] call [Decision.Settle], and whoever shuts down
// [Limiter.Drain].
//
// # Exactness
//
// All algorithms count on integers, with rates in lowest terms: 7 per second is
// 7 per 1,000,000 microseconds, not one per 142,857. Memory and Redis give the
// same answers to the same questions at the same times; the tests compare both
// with an exact model.
//
// # Changing a limit
//
// A limit can change under live keys, and two versions of it can run at once.
// What a client has used stays used, up to the new burst: a raise leaves the
// difference, a cut at worst an empty bucket. Changing only a token bucket's
// burst leaves the debt, which drains at the same rate as before.
package core
