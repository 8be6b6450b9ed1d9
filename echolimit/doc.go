// Package echolimit limits requests to applications on Echo, version 4.
//
//	e := echo.New()
//	e.Use(echolimit.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP())))
//
// Three functions make the middleware, an echo.MiddlewareFunc for an Echo, a group or one route:
//
//   - [Limit] takes limits, and uses defaults for everything else;
//   - [With] takes settings once, for all limits of an application;
//   - [New] takes a limiter from [core.New].
//
// [Key] and [Matches] make keys and conditions of the echo.Context. In a handler,
// [FromContext] returns the decision, [core.Spend] reports what the request has cost, and a [Guard] asks
// limits for what only the handler knows.
//
// # Responses
//
// Every response has the headers RateLimit-Policy and RateLimit. They are set
// before the handler runs, so a response that streams or panics has them, too. A
// denied request does not reach the handler. Its response has the status 429, or
// 503 during an outage if the limit says so, the header Retry-After and a body of
// type application/problem+json. A denial is not an error to Echo, so its
// HTTPErrorHandler does not see it. [Config.Denied] writes another body, or returns
// an error that is rendered like all others.
//
// A request with two values for one key, such as two API keys, gets 400.
//
// # What keys see
//
// The route is c.Path(), or "" where none matched, which includes a wrong method. In
// e.Pre the route is not known: Echo routes after it, and other middleware of e.Pre
// may rewrite the path. A limit by route applies to all requests there, and an
// exemption by route to none. So put limits by route into e.Use. For requests that no
// route of a group with middleware matches, Echo names its own route, "/api/*".
//
// keyfuncs.User looks into c.Get first, if the key is a string, then into the
// context of c.Request().
//
// The peer is RemoteAddr of c.Request() and not c.RealIP(), which without an
// IPExtractor believes X-Forwarded-For from every peer. keyfuncs.Framework reads
// c.RealIP().
//
// # CORS
//
// Preflights count. Put Echo's CORS middleware before the limiter; it then answers
// preflights itself: e.Use(middleware.CORS()), then e.Use(limit).
//
// # Echo 5
//
// For Echo 5 there is echo5limit, with the same names. Middleware of the wrong version does not
// compile.
package echolimit
