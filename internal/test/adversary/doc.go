// Package adversary holds nothing but tests: clients that send the five frameworks
// whatever they like, byte by byte, and one oracle that knows what each of them owes.
//
// A case is one connection. Its bytes come from a grammar of requests (message_test.go),
// from random changes to them (mutate_test.go), or from the fuzzer. The framework serves
// them on its default engine, over a connection in memory; between it and the handler
// stands the adapter, with one of the sets of limits in limits_test.go.
//
// The oracle reads the same bytes by itself. parse_test.go cuts them into requests as
// RFC 9112 says; where a framework reads more or less than that, it has a dialect, each
// field of which is one difference with a name. keys_test.go finds in the header block alone who is limited, and
// shares no code with package keyfuncs. judge_test.go compares what was seen: which
// requests reached the application, under which key each was counted, which handlers ran,
// and what is owed at the end.
//
// Over HTTP/2 a case is the frames of one connection: http2_test.go makes them,
// parse2_test.go reads them as RFC 9113 says, judge2_test.go judges streams that run at
// the same time.
//
//	go test ./internal/test/adversary                                        // some seconds
//	make raw RAW=10000000                                               // as long as you like
//	SEED=123 go test -run TestRawRequests ./internal/test/adversary          // one case again
//	make fuzz                                                           // bytes of the fuzzer's choice
//
// A failure prints the framework, the limits, the seed, the bytes, and the shortest
// bytes that fail in the same way.
package adversary
