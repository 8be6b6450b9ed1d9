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
// # Routes
//
// Limits by route belong on the route:
//
//	app.Get("/items/:id", limit, handler)
//
// There the route is the template, "/items/:id". In app.Use and in groups Fiber
// has not got so far. All that is known is the prefix they were registered
// with, and the route is what it covers: "/*" in app.Use, "/api/*" in
// app.Group("/api", limit), whether or not a route matches further in. A
// condition on "GET /items/:id" never holds there.
//
// # What keys see
//
// keyfuncs.User looks into c.Locals first, then into c.UserContext(). Header
// names compare as Fiber compares them; of User-Agent and Content-Type, Fiber
// keeps the last line only. Cookies and parameters of the query are those of
// c.Cookies and c.Query. Methods that the app's RequestMethods do not name are
// answered by Fiber, before any middleware and unlimited.
//
// The peer is that of the connection and not c.IP(), which believes the header
// that the app's ProxyHeader names, from anyone unless EnableTrustedProxyCheck
// is set, and its leftmost address even then. keyfuncs.Framework reads c.IP().
// In app.Test there is no peer: such requests have no client address.
//
// # After the request
//
// Fiber uses c and its strings again for other requests. A [core.Decision] and
// the context of c.UserContext() hold none of them and may be kept. So may the
// limiter's keys, which are copies.
package fiberlimit
