// Package usage tells a client its own limits: what each is, how much of it is used and left, when it begins
// anew, and, with a quota.Book, what was used on which day and where that leads. It is what GitHub's /rate_limit is:
//
//	limits := nethttp.With(core.Config{Store: store})
//	own := usage.New(usage.Config{Limiters: []*core.Limiter{limiter}})
//	mux.Handle("GET /rate_limit", authenticate(limits.Limit(perMinute)(nethttp.Usage(own))))
//
// Each adapter over HTTP has a function Usage, which makes a handler of its framework. [Usage.Answer] is for others.
//
// # The answer
//
// With status 200 the body is JSON of this shape, which only grows: clients ignore fields that they do not know.
//
//	{"limits": {
//	  "per-minute": {"limit": 600, "used": 12, "remaining": 588, "reset": 1795860062, "window": 60},
//	  "plan": {
//	    "limit": 100000, "used": 41200, "remaining": 58800, "reset": 1796083200,
//	    "period": {"start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z"},
//	    "days": [{"day": "2026-11-27", "used": 2100}, {"day": "2026-11-28", "used": 900}],
//	    "forecast": {"used": 45900}
//	  }
//	}}
//
// [Report] documents each field. Times that are numbers are seconds since the epoch, rounded up.
//
// A request that the limiter would refuse for its key alone is answered as the limiter answers it: 401 or 400,
// with a problem body. If the store does not answer, the status is 503 with Retry-After, and nothing is guessed. If only
// the book does not, the answer lacks days and forecasts, and says so in "incomplete".
//
// # What it tells, and to whom
//
// The limits are those that apply to this request: under its keys, at the numbers of its tier and class. So mount it
// behind the same authentication as what is limited: a limit by a header that nobody has checked tells whoever
// writes that header. Limits with a condition apply if it holds for this request; one for POST alone is not told to a GET.
//
// It tells no more than headers could: nothing of limits in shadow mode and of hidden ones, no key, and nothing of other clients but
// what they have used of limits that they share, such as one by address or for everyone. Mark these
// with core.Limit.Hidden if clients are not to know. Days are told of limits by user, tenant or API key alone.
//
// # What it costs
//
// Asking charges nothing and is no request to the limits that it tells of: no denial is counted, no penalty comes nearer, and
// observers do not hear of it. It takes one round trip to the store for each limiter, and one query of the book for each limit
// that it keeps. So put an ordinary limit in front, as above, by which clients that poll are denied. Answers may not be kept:
// Cache-Control is no-store, since a cache that does not know which header is the key would give one client's answer to another.
package usage
