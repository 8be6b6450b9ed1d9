// Package fiberlimit limits requests to applications on Fiber, version 2.
//
//	app := fiber.New()
//	app.Use(fiberlimit.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP())))
//
// [Limit] is for limits with all else by default, [New] for a limiter that was
// set up with [core.New]. Both return a fiber.Handler, for an app, a group or
// one route.
//
// # Responses
//
// Every response has the headers RateLimit-Policy and RateLimit. They are set
// before the handler runs, so they are there too when it streams or fails. A
// denied request does not reach the handler: it is answered with 429, or with
// 503 during an outage if the limit says so, Retry-After and a body of type
// application/problem+json. This is no error to Fiber, whose ErrorHandler does
// not see it. [Config.Denied] writes another body, or returns an error to have
// it rendered like all others.
//
// A request that says in two ways whose it is, such as with two API keys, gets 400.
//
// # Routes
//
// On a route, the route is its template, "/items/:id". In app.Use and in groups the
// limiter finds the first route further in that matches, by Fiber's own matching,
// which takes about as long as routing does; so it looks only where a limit wants
// the route, and once per request and limiter. What matches none has none, and so
// has what a handler of app.Use answers, such as app.Static: to Fiber that is
// middleware.
//
// A handler may pass a request on by c.Next to the next route that matches it. The
// first is the route; a condition on one of the others has no answer, so a limit of
// it applies and an exemption does not. Neither has a condition where only handlers
// of Use are below, as in app.Use("/proxy", limit, proxy): register a route there,
// app.All("/proxy/*", limit, proxy). Nor has one that names such a prefix, "/proxy/*",
// for a request below it that has no route.
//
// Middleware that changes the path or method goes before the limiter. A limiter of
// Use that notices one behind it, by a request that had no route and then has,
// takes a missing route for one that is not known from then on.
//
// # CORS
//
// Preflights count. Put Fiber's cors before the limiter, where it answers them
// itself: app.Use(cors.New()), then app.Use(limit).
//
// # What keys see
//
// keyfuncs.User looks into c.Locals first, then into c.UserContext(). Names of headers
// compare without case, also where DisableHeaderNormalizing is set. Cookies and
// parameters of the query are those of c.Cookies and c.Query. A second line of Host,
// User-Agent or Content-Type makes a key ambiguous, though Fiber shows only the last.
//
// Only the header block counts. Fiber adds the fields of a trailer, which a client may
// send behind a chunked body, to c.Get and c.GetReqHeaders: an application that reads
// addresses or credentials there believes the client. What middleware has removed from
// the request's headers or changed in them counts as it is then, except that
// User-Agent, Content-Type and Cookie as a header are the client's when the body is
// chunked. A header that
// middleware adds to a chunked request can't be told from a trailer, so a key over it is
// ambiguous: have it use c.Locals, and keyfuncs.User or Tenant.
//
// Methods that the app's RequestMethods do not name are
// answered by Fiber, before any middleware and unlimited.
//
// The peer is that of the connection and not c.IP(), which believes the header
// that the app's ProxyHeader names, from anyone unless EnableTrustedProxyCheck
// is set, and its leftmost address even then. keyfuncs.Framework reads c.IP().
// In app.Test there is no peer: such requests have no client address.
//
// # Prefork
//
// With Prefork every process counts by itself in memory, and all together would allow
// a multiple of the limits. [New] and [Limit] panic there; use a store in Redis. While
// that is out, each process grants a share of the limits: Config.Replicas of package
// core is the number of all processes, on each machine GOMAXPROCS of them.
//
// # After the request
//
// Fiber uses c and its strings again for other requests. A [core.Decision] and
// the context of c.UserContext() hold none of them and may be kept. So may the
// limiter's keys, which are copies.
package fiberlimit
