// Package bench compares weblimit with other rate limiters, in one run on one machine.
//
// It is a separate module, so that no user of weblimit downloads the peers. Each peer is one
// file in package peers, behind the same small interface. A benchmark here runs all of them, one
// after the other, in every scenario:
//
//	make bench                                five rounds, and the pages made of them
//	go run ./report -rounds 1                 one round, and the page printed
//	go test -bench 'Redis/weblimit/1-key/64'  one scenario of one peer
//
// The names are
//
//	BenchmarkRedis/<peer>/<keys>/<goroutines>/<allow|deny>
//	BenchmarkCost/<peer>/<allow|deny>       what Redis does for a check
//	BenchmarkIdle/<peer>                    one caller, compared with a plain call
//	BenchmarkBurst/<peer>/<keys>            a thousand callers at once
//	BenchmarkFairness/<peer>                ten callers of one key for each of another
//	BenchmarkAfterAnOutage/<outage>/<callers>  one key, once Redis answers again
//	BenchmarkMemory/<peer>/<keys>
//	BenchmarkMiddleware/<framework>/<peer>
//	BenchmarkEndToEnd/<peer>/<memory|redis>
//	BenchmarkBreaker/<library>/<closed|open>
//
// The rows of one scenario run directly after each other, so other work of the machine affects all
// peers alike. Figures from different runs cannot be compared; ratios within one run can.
package bench
