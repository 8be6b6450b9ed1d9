// Package top finds heavy hitters: per limit, the clients that are nearest to it, that it denies
// most and that ask most, with their last denial; how much clients use, from which a limit's
// number can be chosen; and decisions per second and minute. A [Tracker] is an observer of
// limiters:
//
//	heavy := top.New(top.Config{Exchange: store.Exchange()})
//	defer heavy.Close()
//	limits := ginlimit.With(core.Config{Store: store, Observe: heavy})
//
// [Tracker.Snapshot] says what this process has counted, and [Tracker.Collect] what all
// instances have: they publish snapshots every few seconds through an [Exchange], such as that
// of a store on Redis. Package inspect shows both on a page.
package top
