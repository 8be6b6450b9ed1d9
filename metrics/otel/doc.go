// Package otel reports what limiters decide through OpenTelemetry: metrics, attributes and events
// on the spans of requests, and spans for the store's round trips. It uses the API alone, so the
// application chooses the SDK, the exporters and what is sampled. Import it as weblimitotel:
//
//	import weblimitotel "github.com/weblimit/weblimit/metrics/otel"
//
//	observer, err := weblimitotel.New(weblimitotel.Config{})
//	limits := ginlimit.With(core.Config{Store: store, Observe: observer})
//
// One observer serves any number of limiters and stores. Nothing in it has to be closed. At
// shutdown, stop the server, call [core.Limiter.Drain], and then shut the SDK's providers down,
// so that the last settlements are exported.
//
// # Traces
//
// The middleware that starts the request's span, such as otelhttp or otelgin, has to stand in front
// of the limiter. A span that does not record costs nothing: nothing is made for it, and a call
// without a span, such as AllowKey in a job, starts no trace.
//
// The request's span gets the attributes
//
//	weblimit.decision    allowed or denied
//	weblimit.reason      such as limit_exceeded: a [core.Reason]
//	weblimit.limit       which the decision is due to
//	weblimit.remaining   units that are left under this limit
//
// and, of several limiters, those of the last. A denial is the event weblimit.denied, with
// the first three attributes and weblimit.retry_after_ms. For each limit in shadow mode that would
// have denied the request there is an event weblimit.would_be_denied, with weblimit.limit,
// weblimit.reason and weblimit.retry_after_ms.
//
// Below it are two spans. weblimit.check is the store's round trip, from the first question to the
// last answer. If the store did not answer, its status is an error, with error.type and
// weblimit.store.node; the decision's reason says what the limits did about it. Checks of less than
// 10 µs have no span: they were answered in this process. weblimit.wait is a request that waited
// for its turn. These spans do not depend on the version of go-redis, and its own instrumentation
// is not needed.
//
// A settlement, which gives units back or charges more after the response, has metrics and no span.
//
// # Metrics
//
// Names, units and attributes follow the semantic conventions. All durations are in seconds.
//
//	weblimit.decisions               counter        weblimit.limit, http.route, weblimit.decision, weblimit.reason, weblimit.adapter
//	weblimit.would_be_denied         counter        weblimit.limit, http.route
//	weblimit.shares                  counter        weblimit.limit, weblimit.standing, weblimit.decision: of enforced limits that clients divide
//	weblimit.check.duration          histogram      weblimit.limit, and error.type if the store did not answer
//	weblimit.retry_after             histogram      weblimit.limit
//	weblimit.wait.duration           histogram      weblimit.limit
//	weblimit.settlements             counter        weblimit.limit, weblimit.settlement.kind: charged, refunded, forgiven or unknown
//	weblimit.settled.units           counter        the same
//	weblimit.store.errors            counter        error.type, weblimit.store.node
//	weblimit.store.settlements.lost  counter        error.type
//	weblimit.store.breakers.open     updowncounter  weblimit.store.node
//	weblimit.store.outages           updowncounter
//	weblimit.ledger.out              updowncounter
//	weblimit.ledger.accounts.waiting counter
//	weblimit.ledger.accounts.forked  counter
//	weblimit.notices.failed          counter        weblimit.channel
//	weblimit.notices.dead            counter        weblimit.channel
//	weblimit.exports.failed          counter        weblimit.export
//	weblimit.region.units            counter        weblimit.region, weblimit.limit, weblimit.region.units.kind: leased from home, spent, lost, returned, told
//	weblimit.region.messages         counter        weblimit.region, weblimit.limit
//	weblimit.region.leases.failed    counter        weblimit.region, weblimit.limit, weblimit.reason: unanswered or crowded
//	weblimit.region.waited           counter        weblimit.region, weblimit.limit
//	weblimit.region.denied_early     counter        weblimit.region, weblimit.limit
//	weblimit.region.keys             gauge          weblimit.region
//	weblimit.region.home.away        gauge          weblimit.region
//	weblimit.region.home.trip        gauge          weblimit.region
//	weblimit.policy.info             gauge          weblimit.policy.version
//	weblimit.policy.refused          gauge
//	weblimit.limit.quota             gauge          weblimit.limit
//	weblimit.limit.burst             gauge          weblimit.limit
//	weblimit.limit.window            gauge          weblimit.limit
//
// With [Config.RateLimiting] there are also these, which have the shape of ASP.NET Core's
// aspnetcore.rate_limiting.*:
//
//	weblimit.rate_limiting.requests              counter        weblimit.rate_limiting.policy: the limit, weblimit.rate_limiting.result: acquired, endpoint_limiter or request_canceled
//	weblimit.rate_limiting.request.time_in_queue histogram      the same
//	weblimit.rate_limiting.queued_requests       updowncounter
//
// No attribute holds a key, an address of a client, or anything else that a client sends: the limit
// and the route are names of the application. Their number is bounded all the same; see
// Config.MaxSeries. An attribute without a value is left out.
//
// Measurements are made with the request's context, so the SDK adds exemplars by its own rules.
package otel
