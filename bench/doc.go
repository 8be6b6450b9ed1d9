// Package bench measures weblimit beside other rate limiters, in one run on one machine.
//
// It is a module of its own, so that no user of weblimit downloads the peers. Each peer is
// one file in package peers, behind the same small interface; a benchmark here asks them all,
// one after the other, in every scenario:
//
//	go test -bench .                          one round
//	go test -bench 'Redis/weblimit/1-key/64'  one scenario of one peer
//	go run ./report -o ../docs/benchmarks.md  five rounds, and the page made of them
//
// The names are
//
//	BenchmarkRedis/<peer>/<keys>/<goroutines>/<allow|deny>
//	BenchmarkMemory/<peer>/<keys>
//	BenchmarkMiddleware/<framework>/<peer>
//
// with the rows of one scenario next to each other in time, so that what else the machine
// does falls on all peers alike. Figures from different runs can't be compared; ratios within
// one run can.
package bench
