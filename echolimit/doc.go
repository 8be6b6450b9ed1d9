// Package echolimit limits requests to applications on Echo, version 4.
//
//	e := echo.New()
//	e.Use(echolimit.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP())))
//
// [Limit] is for limits with all else by default, [New] for a limiter that was
// set up with [core.New]. Both return an echo.MiddlewareFunc, for an Echo, a
// group or one route.
//
// # Responses
//
// Every response has the headers RateLimit-Policy and RateLimit. They are set
// before the handler runs, so they are there too when it streams or panics. A
// denied request does not reach the handler: it is answered with 429, or with
// 503 during an outage if the limit says so, Retry-After and a body of type
// application/problem+json. This is no error to Echo, whose HTTPErrorHandler
// does not see it. [Config.Denied] writes another body, or returns an error to
// have it rendered like all others.
//
// A request that says in two ways whose it is, such as with two API keys, gets 400.
//
// # What keys see
//
// The route is c.Path(), "" where none matched, for a wrong method too. In e.Pre it
// is not known, since Echo routes after it, and what else is in e.Pre may rewrite
// the path: a limit of a route applies to all there, and an exemption to none. So
// limits by route belong in e.Use. Echo names a route of its own, "/api/*", for
// what no route in a group with middleware matches.
//
// keyfuncs.User looks into c.Get first, if the key is a string, then into the
// context of c.Request().
//
// The peer is RemoteAddr of c.Request() and not c.RealIP(), which without an
// IPExtractor believes X-Forwarded-For from anyone. keyfuncs.Framework reads
// c.RealIP().
//
// # CORS
//
// Preflights count. Put Echo's CORS middleware before the limiter, where it answers
// them itself: e.Use(middleware.CORS()), then e.Use(limit).
package echolimit
