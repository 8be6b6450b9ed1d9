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
// Templates have no slash at the end, as chi's RoutePattern writes them. The root of
// what is mounted at "/files" has the mount's template, "/files/*", with or without
// its slash, unless the mounted router has a route for it.
//
// What is mounted without being a chi router is one route, "/files/*". So is a
// chi router that is wrapped in another handler before it is mounted; within it, a
// condition on a route below "/files/" has no answer. Directly around a router, as
// in chilimit.Limit(…)(router), routes are known; with something else in between
// they are not: a limit of a route applies to all then, and an exemption to none.
//
// Middleware that changes what chi routes by, such as chi's CleanPath and
// StripSlashes, goes before the limiter: it would see the route of a path that
// is not the one in the end. A limiter of Use that notices one behind it, by a
// request that had no route and then has, takes a missing route for one that is
// not known from then on.
//
// # CORS
//
// Preflights count. Put go-chi/cors before the limiter, where it answers them
// itself: r.Use(cors.Handler(…)), then r.Use(limit).
//
// # Client addresses
//
// The peer is r.RemoteAddr. net/http sets it to the TCP peer; chi's RealIP
// overwrites it with a header's value and lets clients choose their bucket, so
// keep it out, or inside of the limiter. What one of chi's ClientIPFrom… has
// found, outside of the limiter, is what keyfuncs.Framework reads.
package chilimit
