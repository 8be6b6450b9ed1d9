// Package bench measures weblimit beside other rate limiters, in one run on one machine.
//
// It is a module of its own, so that no user of weblimit downloads the peers. Each peer is
// one file in package peers, behind the same small interface; a benchmark here asks them all,
// one after the other, in every scenario:
//
//	make bench                                five rounds, and the pages made of them
//	go run ./report -rounds 1                 one round, and the page printed
//	go test -bench 'Redis/weblimit/1-key/64'  one scenario of one peer
//
// The names are
//
//	BenchmarkRedis/<peer>/<keys>/<goroutines>/<allow|deny>
//	BenchmarkCost/<peer>/<allow|deny>       what Redis does for a check
//	BenchmarkIdle/<peer>                    one caller beside a plain call
//	BenchmarkBurst/<peer>/<keys>            a thousand callers at once
//	BenchmarkMemory/<peer>/<keys>
//	BenchmarkMiddleware/<framework>/<peer>
//	BenchmarkEndToEnd/<peer>/<memory|redis>
//	BenchmarkBreaker/<library>/<closed|open>
//
// with the rows of one scenario next to each other in time, so that what else the machine
// does falls on all peers alike. Figures from different runs can't be compared; ratios within
// one run can.
package bench
