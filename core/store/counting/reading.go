package counting

// Reading is the state of a bucket in the units of its rule's [store.Integers]. [Reading.Result]
// makes the answer of it, so that stores which count on their server need not. Numbers
// holds:
//
//	token bucket    whole ticks until empty of debt; the fraction of a tick over Rate
//	  with a Share  beside these: parts of the share; what Sharing.tell says
//	fixed window    units used; microseconds to the window's end
//	calendar        the same
//	sliding window  units used in this window; in the last; ticks since this one began
//	sliding log     units used; microseconds until the cost fits; until one unit fits; until none is used
//	concurrency     slots held; microseconds until the last lease ends
//	ledger          units used; microseconds to the window's end; the position
type Reading struct {
	Charged bool
	At      int64 // when it was read, in microseconds since the epoch
	Numbers [4]int64
	Blocked int64 // microseconds until the block in force ends; 0 if there is none
}
