// Package chilimit limits requests to applications on chi.
//
//	r := chi.NewRouter()
//	r.Use(chilimit.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP())))
//
// [Limit] is for limits with all else by default, [New] for a limiter that was
// set up with [core.New]. Both return middleware, func(http.Handler)
// http.Handler, for a router, a group or, by r.With, one route.
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
// keyfuncs.Route and conditions on routes see the whole template of the route
// that is going to answer, "/api/items/{id}" also from within a router mounted
// at /api, and "" where there is none. Where chi has not got so far, as in a
// middleware of r.Use, the adapter asks chi for it, which takes about as long
// as routing does; so it asks only where a limit wants the route, and once per
// request and limiter. HEAD without a route of its own has that of GET, as with
// chi's middleware.GetHead.
//
// What is mounted without being a chi router is one route, "/files/*". So is a
// chi router that is wrapped in another handler before it is mounted. Around
// all of chi, as in chilimit.Limit(…)(router), no route is known.
//
// Middleware that changes what chi routes by, such as chi's CleanPath and
// StripSlashes, goes before the limiter: it would see the route of a path that
// is not the one in the end.
//
// # Client addresses
//
// The peer is r.RemoteAddr. net/http sets it to the TCP peer; chi's RealIP
// overwrites it with a header's value and lets clients choose their bucket, so
// keep it out, or inside of the limiter. What one of chi's ClientIPFrom… has
// found, outside of the limiter, is what keyfuncs.Framework reads.
package chilimit
