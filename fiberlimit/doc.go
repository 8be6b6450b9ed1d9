// Package fiberlimit limits requests to applications on Fiber, version 2.
//
//	app := fiber.New()
//	app.Use(fiberlimit.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP())))
//
// Three functions make the middleware, a fiber.Handler for an app, a group or one route:
//
//   - [Limit] takes limits, and uses defaults for everything else;
//   - [With] takes settings once, for all limits of an application;
//   - [New] takes a limiter from [core.New].
//
// [Key] and [Matches] make keys and conditions of the *fiber.Ctx. In a handler,
// [FromContext] returns the decision, [core.Spend] reports what the request has cost, and a [Guard] asks
// limits for what only the handler knows.
//
// # Responses
//
// Every response has the headers RateLimit-Policy and RateLimit. They are set
// before the handler runs, so a response that streams or fails has them, too. A
// denied request does not reach the handler. Its response has the status 429, or
// 503 during an outage if the limit says so, the header Retry-After and a body of
// type application/problem+json. A denial is not an error to Fiber, so its
// ErrorHandler does not see it. [Config.Denied] writes another body, or returns an
// error that is rendered like all others.
//
// A request with two values for one key, such as two API keys, gets 400.
//
// # Routes
//
// On a route, the route is its template, "/items/:id". In app.Use and in groups the
// limiter finds the first route further in that matches, with Fiber's own matching.
// That takes about as long as routing does, so it looks only if a limit needs the
// route, and once per request and limiter. A request that matches no route has none.
// Nor has a request that a handler of app.Use answers, such as app.Static: to Fiber
// that is middleware.
//
// A handler may pass a request by c.Next to the next route that matches. The limiter
// sees the first. Conditions on routes have no answer in three cases:
//
//   - for the later routes that a request may be passed to;
//   - where only handlers of Use are below, as in app.Use("/proxy", limit, proxy);
//     register a route there instead, app.All("/proxy/*", limit, proxy);
//   - for a condition that names such a prefix, "/proxy/*", and a request below it
//     without a route.
//
// A limit with such a condition applies; an exemption does not.
//
// Put middleware that changes the path or the method before the limiter. A limiter of
// Use notices such middleware behind it when a request without a route gets one later.
// From then on it treats a missing route as unknown.
//
// # CORS
//
// Preflights count. Put Fiber's cors before the limiter; it then answers preflights
// itself: app.Use(cors.New()), then app.Use(limit).
//
// # What keys see
//
// keyfuncs.User looks into c.Locals first, then into c.UserContext(). Names of headers
// compare without case, even if DisableHeaderNormalizing is set. Cookies and query
// parameters are those of c.Cookies and c.Query. A second line of Host, User-Agent or
// Content-Type makes a key ambiguous, though Fiber shows only the last.
//
// Only the header block counts. A client may send trailers behind a chunked body, and
// Fiber adds them to c.Get and c.GetReqHeaders: an application that reads addresses
// or credentials there believes the client. A handler of net/http in an application on Fiber
// sees only the trailer's value. So limit it by this package, and not by nethttp.
//
// If middleware removes or changes request headers, the limiter sees the result. There
// is one exception: with a chunked body, User-Agent, Content-Type and the Cookie
// header are the client's. A header that middleware adds to a chunked request cannot
// be told from a trailer, so a key from it is ambiguous. Have the middleware use
// c.Locals, and the limit keyfuncs.User or Tenant.
//
// Fiber itself answers methods that are not in the app's RequestMethods, before any
// middleware and without a limit.
//
// The peer is that of the connection and not c.IP(). c.IP() believes the header named
// by the app's ProxyHeader: from every peer unless EnableTrustedProxyCheck is set,
// and its leftmost address even then. keyfuncs.Framework reads c.IP(). In app.Test
// there is no peer, so requests have no client address.
//
// # Prefork
//
// With Prefork each process counts in its own memory, and together they would allow a
// multiple of the limits. So [New] and [Limit] panic there if the store is in memory:
// use a store in Redis. During an outage of Redis each process grants a share of the
// limits. Set Config.Replicas of package core to the number of all processes; each
// machine runs GOMAXPROCS of them.
//
// # After the request
//
// Fiber reuses c and its strings for other requests. A [core.Decision] and the
// context of c.UserContext() contain none of them, so you may keep them. The
// limiter's keys are copies.
//
// # Fiber 3
//
// For Fiber 3 there is fiber3limit, with the same names. An application on Fiber 3 compiles with
// fiberlimit, too, since app.Use takes any value there, and panics at start-up with
// "use: invalid handler func(*fiber.Ctx) error".
package fiberlimit
