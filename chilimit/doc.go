// Package chilimit limits requests to applications on chi.
//
//	r := chi.NewRouter()
//	r.Use(chilimit.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP())))
//
// Three functions make the middleware, a func(http.Handler) http.Handler for a router, a
// group or, by r.With, one route:
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
// keyfuncs.Route and conditions on routes see the whole template of the route
// that will answer: "/api/items/{id}" even within a router mounted at /api, and ""
// if there is none. If chi has not routed yet, as in middleware of r.Use, the adapter
// asks chi for the route. That takes about as long as routing does, so it asks only if
// a limit needs the route, and once per request and limiter. HEAD without its own
// route has the route of GET, as with chi's middleware.GetHead.
//
// Templates have no slash at the end, as in chi's RoutePattern. The root of a
// router mounted at "/files" has the mount's template, "/files/*", with or without
// its slash, unless the mounted router has a route for it.
//
// A mounted handler that is not a chi router is one route, "/files/*". So is a chi
// router that is wrapped in another handler before it is mounted; within it, a
// condition on a route below "/files/" has no answer. Directly around a router, as
// in chilimit.Limit(…)(router), routes are known. With something else in between
// they are not known: a limit by route then applies to all requests, and an
// exemption by route to none.
//
// Put middleware that changes the path, such as chi's CleanPath and StripSlashes,
// before the limiter, or the limiter sees the route of the old path. A limiter of Use
// notices such middleware behind it when a request without a route gets one later.
// From then on it treats a missing route as unknown.
//
// # CORS
//
// Preflights count. Put go-chi/cors before the limiter; it then answers preflights
// itself: r.Use(cors.Handler(…)), then r.Use(limit).
//
// # Client addresses
//
// The peer is r.RemoteAddr. net/http sets it to the TCP peer. chi's RealIP
// overwrites it with the value of a header and lets clients choose their bucket: do
// not use it, or put it inside of the limiter. keyfuncs.Framework reads the address
// that one of chi's ClientIPFrom… has found outside of the limiter.
package chilimit
