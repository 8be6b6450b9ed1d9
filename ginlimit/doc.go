// Package ginlimit limits requests to applications on Gin.
//
//	r := gin.New()
//	r.Use(ginlimit.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP())))
//
// [Limit] is for limits with all else by default, [New] for a limiter that was
// set up with [core.New]. Both return a gin.HandlerFunc, for an engine, a group
// or one route.
//
// # Responses
//
// Every response has the headers RateLimit-Policy and RateLimit. They are set
// before the handler runs, so they are there too when it streams or panics. A
// denied request does not reach the handler: the chain is aborted, and it is
// answered with 429, or with 503 during an outage if the limit says so,
// Retry-After and a body of type application/problem+json. [Config.Denied]
// writes another body.
//
// A request that says in two ways whose it is, such as with two API keys, gets 400.
//
// # What keys see
//
// The route is c.FullPath(), "" where no route matched; it is known everywhere.
// Gin runs the engine's middleware for those too, but not where it redirects, as
// from /users/ to /users. What NoRoute answers is no route. keyfuncs.User looks into c.Get first, then into the context of
// c.Request. Cookies are unescaped as c.Cookie does.
//
// The peer is c.Request.RemoteAddr and not c.ClientIP(), which believes
// X-Forwarded-For from anyone until SetTrustedProxies says otherwise.
//
// # CORS
//
// Preflights count. Put gin-contrib/cors before the limiter, where it answers them
// itself: r.Use(cors.New(…)), then r.Use(limit).
package ginlimit
