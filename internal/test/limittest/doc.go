// Package limittest is the suite that every adapter passes: the same scenarios with the
// same decisions, headers and bodies. The table in run.go says which run over memory, and which
// over Redis. A new adapter calls [Run]:
//
//	func TestMain(m *testing.M)     { os.Exit(limittest.Main(m)) }
//	func TestSuite(t *testing.T)    { limittest.Run(t, "gin", build) }
//	func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build) } // not parallel, so not in Run
//
//	func build(tb testing.TB, app limittest.App) limittest.Server {
//		r := gin.New()
//		r.Use(gin.Recovery(), …)    // what each field of app asks for, in its order
//		return limittest.Serve(r)   // for frameworks over net/http
//	}
//
// [App] describes a small web application without naming a framework. The tests of the
// adapters for net/http and Gin are the examples to start from, each about 100 lines: one
// over plain handlers, one over a context of the framework.
//
// A framework that is not over net/http implements [Server] and [Call] itself, as the
// adapter for Fiber does. With fasthttp, Do is [Exchange]: it serves one connection in
// memory whose peer is that of the request, where the framework's own test helpers have
// one peer for all requests. [Differences] says what such a framework cannot do.
//
// Times in responses depend on the speed of the machine. Scenarios therefore use buckets
// that refill one unit in minutes or hours. They read the seconds of a wait from
// Retry-After and compare the rest of the response byte by byte.
//
// The package reaches only the standard library, this module and go-redis, because users'
// `go mod tidy` downloads what the adapters' tests import.
package limittest
