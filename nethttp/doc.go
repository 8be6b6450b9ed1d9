// Package nethttp limits requests to handlers of net/http, and of routers built
// on it that have no adapter of their own.
//
//	limit := nethttp.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP()))
//	http.ListenAndServe(":8080", limit(mux))
//
// Three functions make the middleware, a func(http.Handler) http.Handler for a whole mux or
// for one handler:
//
//   - [Limit] takes limits, and uses defaults for everything else;
//   - [With] takes settings once, for all limits of an application;
//   - [New] takes a limiter from [core.New].
//
// [Key] and [Matches] make keys and conditions of the *http.Request. In a handler,
// [FromContext] returns the decision, [core.Spend] reports what the request has cost, and a [Guard] asks
// limits for what only the handler knows.
//
// # Responses
//
// Every response has the headers RateLimit-Policy and RateLimit. They are set
// before the handler runs, so a response that streams or panics has them, too. A
// denied request does not reach the handler. Its response has the status 429, or
// 503 during an outage if the limit says so, the header Retry-After and a body of
// type application/problem+json. [Config.Denied] writes another body.
//
// A request with two values for one key, such as two API keys, gets 400.
//
// # Routes
//
// keyfuncs.Route and conditions on routes see the pattern that http.ServeMux
// matched, without its method. If a mux contains another one, they see the pattern
// of the innermost. The route is known around a mux, which the limiter asks, and
// around a route's handler. If something else stands between the limiter and the
// mux, name the mux in [Config.Mux]. Without it the route is not known there, nor
// around another router: a limit by route then applies to all requests, and an
// exemption by route to none.
//
// Around a handler for a whole subtree, such as "/api/", the subtree is the route.
// Conditions on routes below it have no answer, since the handler may be a router.
// Put middleware that rewrites the path or the method before the limiter.
//
// # CORS
//
// Preflights count. Put the CORS middleware around the limiter; it then answers
// preflights itself: cors.Default().Handler(limit(mux)) with rs/cors.
//
// # Client addresses
//
// The peer is r.RemoteAddr. net/http sets it to the TCP peer. Middleware that
// overwrites it with the value of a header lets clients choose their bucket: put
// the limiter outside of such middleware.
package nethttp
