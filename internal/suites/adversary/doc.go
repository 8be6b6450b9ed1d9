// Package adversary is a test suite: clients that send arbitrary bytes to the frameworks,
// and one oracle that knows what each client must be charged. Its own tests attack what
// package frameworks has, and package majors the newer majors.
//
// A case is one connection. Its bytes come from a grammar of requests (message.go),
// from random changes to them (mutate.go), or from the fuzzer. The framework serves
// them on its default engine, over a connection in memory. The adapter stands before the
// handlers, with one of the sets of limits in limits.go.
//
// The oracle reads the same bytes independently. parse.go cuts them into requests
// according to RFC 9112. Each difference of a framework from the RFC is a field of its
// dialect (dialect.go). keys.go determines the client from the header block and
// shares no code with package keyfuncs. judge.go compares the results: which requests
// reached the application, under which key each was counted, which handlers ran, and what
// stays charged at the end.
//
// Over HTTP/2 a case is the frames of one connection: http2.go makes them,
// parse2.go reads them according to RFC 9113, and judge2.go judges streams that
// run at the same time.
//
//	cd internal/suites && go test ./adversary                               // some seconds
//	make raw RAW=10000000                                                   // as many requests as you like
//	cd internal/suites && SEED=123 go test -run TestRawRequests ./adversary // one case again
//	make fuzz                                                               // bytes chosen by the fuzzer
//
// A failure prints the framework, the limits, the seed, the bytes, and the shortest bytes
// that fail in the same way.
package adversary
