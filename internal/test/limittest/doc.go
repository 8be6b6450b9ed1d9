// Package limittest is the suite that every adapter passes: the same scenarios
// with the same decisions, headers and bodies, over memory and over Redis.
//
// An [App] describes a small web application in no framework's terms. An
// adapter's test builds it with its framework and runs the suite:
//
//	func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }
//
//	func TestSuite(t *testing.T) { limittest.Run(t, "gin", build) }
//
//	func build(tb testing.TB, app limittest.App) limittest.Server {
//		r := gin.New()
//		r.Use(gin.Recovery(), …)                    // what each field of App asks for, in its order
//		return limittest.Serve(r)                   // for frameworks over net/http
//	}
//
// The adapters for net/http and Gin are the examples to start from, each under
// 100 lines: one over plain handlers, one with a context of its own.
//
// A framework that is not over net/http implements [Server] and [Call] itself,
// as the adapter for Fiber does. With fasthttp, Do is [Exchange], which has the
// server serve a connection in memory whose peer is that of the request: the
// framework's own test helpers have one peer for all requests. What such a
// framework can't do is in its [Differences].
//
// Times in responses depend on how fast the machine is, so scenarios use buckets
// that refill one unit in minutes or hours, and read the seconds of a wait from
// Retry-After before they compare the rest of the response with it, byte by byte.
//
// The package reaches the standard library, this module and go-redis only,
// since users' `go mod tidy` downloads what the adapters' tests import.
package limittest
