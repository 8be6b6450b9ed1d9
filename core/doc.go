// Package core decides rate limits and quotas for Go services. What to take of it:
//
//   - limits: [PerSecond], [PerMinute] and their like, with the decorators of [Limit],
//     whose documentation lists them by purpose, or [ParseLimit] for limits from flags;
//   - a store: [NewMemory] for one process, or package redisstore for several;
//   - settings: [Config], for the With of an adapter or for [New];
//   - decisions without HTTP: [New], then [Limiter.Allow] or [Limiter.AllowKey]; for
//     batches [Limiter.AllowAtMost] or [Limiter.AllowKeyAtMost];
//   - the outcome: [Decision] with its [Reason], in a handler by [FromContext];
//   - actual costs: [Spend]; at shutdown, [Limiter.Drain];
//   - administration: [Limiter.Peek], [Limiter.Reset], [Limiter.Blocks], [Limiter.Block]
//     and [Limiter.Unblock];
//   - outages: [Limit.OnOutage] and [Fallback];
//   - metrics, traces and logs: [Observer];
//   - overload: [NewLoad], for [Limit.Scale];
//   - headers: [Headers], [HeadersWhen] and, for CORS, [ExposeHeaders].
//
// The package knows no web framework. Adapters such as nethttp and ginlimit translate
// between a framework and this package.
//
// # Limits
//
// A [Limit] says how many units per window, for which key, counted by which
// algorithm:
//
//	core.PerMinute(300).By(keyfuncs.ClientIP())
//	core.PerSecond(60).Burst(120).By(keyfuncs.User("customer")).Named("customer")
//	core.PerDay(100_000).FixedWindow().By(keyfuncs.User("customer")).Named("daily")
//
// Which algorithm to choose:
//
//   - [Limit.TokenBucket], the default: an even rate with room for bursts. It costs
//     the least.
//   - [Limit.FixedWindow]: a quota per minute, hour or day of the clock, which is easy
//     to explain. Up to twice the quota can pass around the edge of two windows. With
//     [Limit.FromFirstUse] they begin with a client's first request.
//   - [Limit.SlidingWindow]: a fixed window without that edge, for traffic that is
//     roughly even.
//   - [Limit.SlidingLog]: exact over any stretch of time, for small quotas such as
//     login attempts.
//   - [PerMonth], [PerCalendarDay] and [PerBillingMonth]: fixed windows that follow the
//     calendar of a time zone, for contracts and billing.
//   - [Concurrent]: a concurrency limit. It caps the requests that run at once.
//
// # Decisions
//
// A [Limiter] decides all its limits for one request together. Either all of them
// are charged, or one denies and none is. A denied request consumes nothing, so
// hammering extends no wait. Waiting exactly Retry-After succeeds; only for a
// concurrency limit is it a hint.
//
// A limit can depend on the request: see [Limit.When], [Limit.CostBy], [Limit.Tiers],
// [Limit.KeepFree] and [Limit.OncePer]; on the load of the service: see [Limit.Scale]; and
// it can have requests wait for their turn: see [Limit.Wait].
//
// Some limits hold a reservation while the handler runs. It is settled when the
// response is done: [Limit.RefundOn] gives the charge back, depending on the outcome;
// [Limit.Estimate] and [Spend] correct it to the actual cost; a [Concurrent] limit
// frees its slot. Adapters do this for you. Code that calls [Limiter.Allow] or
// [Limiter.AllowKey] also calls [Decision.Settle].
//
// # Exactness
//
// All algorithms count in integers, and the stores in memory and on Redis give the same
// answers. A limit can be changed while it is in use, and two versions of it can run at
// once: what a client has used stays used, up to the new burst.
package core
