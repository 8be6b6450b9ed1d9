// Package nethttp limits requests to handlers of net/http, and of routers built
// on it that have no adapter of their own.
//
//	limit := nethttp.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP()))
//	http.ListenAndServe(":8080", limit(mux))
//
// [Limit] is for limits with all else by default, [New] for a limiter that was
// set up with [core.New]. Both return middleware, func(http.Handler)
// http.Handler, which goes around a whole mux or around one handler.
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
// keyfuncs.Route and conditions on routes see the pattern that http.ServeMux
// matched, less its method. Around one handler that is at hand. Around a mux it
// is not known yet: tell [Config.Mux] which mux it is. Without it all requests
// count as unmatched.
//
// # Client addresses
//
// The peer is r.RemoteAddr. net/http sets it to the TCP peer; middleware that
// overwrites it with a header's value lets clients choose their bucket, so put
// the limiter outside of such middleware.
package nethttp
