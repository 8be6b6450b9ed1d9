// Package nethttp limits requests to handlers of net/http, and of routers built
// on it that have no adapter of their own.
//
//	limit := nethttp.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP()))
//	http.ListenAndServe(":8080", limit(mux))
//
// [Limit] is for limits with all else by default, [New] for a limiter that was
// set up with [core.New]. Both return middleware, func(http.Handler)
// http.Handler, which goes around a whole mux or around one handler.
//
// # Responses
//
// Every response has the headers RateLimit-Policy and RateLimit. They are set
// before the handler runs, so they are there too when it streams or panics. A
// denied request does not reach the handler: it is answered with 429, or with
// 503 during an outage if the limit says so, Retry-After and a body of type
// application/problem+json. [Config.Denied] writes another body.
//
// A request that says in two ways whose it is, such as with two API keys, gets 400.
//
// # Routes
//
// keyfuncs.Route and conditions on routes see the pattern that http.ServeMux
// matched, less its method; of muxes in one another, that of the innermost. It is
// known around a mux, which the limiter asks, and around a route's handler. With
// something else between the limiter and the mux, name the mux in [Config.Mux];
// without it no route is known in front of a mux, or around another router: a
// limit of a route applies to all then, and an exemption to none.
//
// Around a handler for a whole subtree, such as "/api/", that is the route. A
// condition on a route below it has no answer there, since the handler may be a
// router. What rewrites the path or method goes before the limiter.
//
// # CORS
//
// Preflights count. Put the CORS middleware around the limiter, where it answers
// them itself: cors.Default().Handler(limit(mux)) with rs/cors.
//
// # Client addresses
//
// The peer is r.RemoteAddr. net/http sets it to the TCP peer; middleware that
// overwrites it with a header's value lets clients choose their bucket, so put
// the limiter outside of such middleware.
package nethttp
