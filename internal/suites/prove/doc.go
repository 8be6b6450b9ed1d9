// Package prove checks that histories of weblimit's stores are linearizable: several processes with
// several goroutines each take, refund, charge, peek, reset, block and unblock at the same time, while
// connections are cut, messages get lost, processes and servers are stopped, killed and restarted, and clocks are set. All
// that they were answered must be what one limiter, one request after the other, would have answered.
//
//	make prove                     // a minute
//	make prove FOR=1h              // longer
//	make prove SEED=7              // one history again
//	make prove MUTATIONS=1         // break the code on purpose, and see that it is noticed
//
// The model is written from docs/choose/algorithms.md, docs/run/guarantees.md and the documentation of core/store.Store. It
// shares no code with the stores. [docs/maintain/proof.md] says what is shown, and what is not.
//
// [docs/maintain/proof.md]: https://github.com/weblimit/weblimit/blob/main/docs/maintain/proof.md
package prove
