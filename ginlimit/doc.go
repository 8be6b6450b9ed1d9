// Package ginlimit limits requests to applications on Gin.
//
//	r := gin.New()
//	r.Use(ginlimit.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP())))
//
// Three functions make the middleware, a gin.HandlerFunc for an engine, a group or one route:
//
//   - [Limit] takes limits, and uses defaults for everything else;
//   - [With] takes settings once, for all limits of an application;
//   - [New] takes a limiter from [core.New].
//
// [Key] and [Matches] make keys and conditions of the *gin.Context. In a handler,
// [FromContext] returns the decision, [core.Spend] reports what the request has cost, and a [Guard] asks
// limits for what only the handler knows.
//
// # Responses
//
// Every response has the headers RateLimit-Policy and RateLimit. They are set
// before the handler runs, so a response that streams or panics has them, too. A
// denied request does not reach the handler: the chain is aborted. Its response has
// the status 429, or 503 during an outage if the limit says so, the header
// Retry-After and a body of type application/problem+json. [Config.Denied] writes
// another body.
//
// A request with two values for one key, such as two API keys, gets 400.
//
// # What keys see
//
// The route is c.FullPath(), or "" where no route matched. It is known everywhere.
// Gin runs the engine's middleware for requests without a route, too, but not where
// it redirects, as from /users/ to /users. Requests that NoRoute answers have no
// route.
//
// keyfuncs.User looks into c.Get first, then into the context of c.Request. Cookies
// are unescaped as c.Cookie does.
//
// The peer is c.Request.RemoteAddr and not c.ClientIP(), which believes
// X-Forwarded-For from every peer until SetTrustedProxies is called.
// keyfuncs.Framework reads c.ClientIP().
//
// # CORS
//
// Preflights count. Put gin-contrib/cors before the limiter; it then answers
// preflights itself: r.Use(cors.New(…)), then r.Use(limit).
package ginlimit
