package redisstore

// The deadlines of jobs that wait. One timer per node looks after all of them, so that an owner
// waits for its signal and nothing else: a timer of its own, and a select over both, take a third of
// what a check costs this process.

import (
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store/counting"
)

// sweepEvery is the least time between two sweeps, and so how late a job may be told that its
// deadline is over, beside the lateness of timers.
const sweepEvery = 500 * time.Microsecond

// deadlines has the owners of jobs told when their time is over.
type deadlines struct {
	flights []*batch    // in flight, of jobs that owners wait for. Guarded by batchQueue.mu.
	sweepAt int64       // when the timer fires, on the monotonic clock; 0 if it does not. Guarded by batchQueue.mu.
	putOff  int         // how often the sweep that is due was put off; see sweepLater. Guarded by batchQueue.mu.
	sweeper *time.Timer // nil until a job has waited. Guarded by batchQueue.mu.
}

// endOf returns when a context ends, on the monotonic clock, if that is all that ends it. Otherwise it
// returns 0, and the owner watches the context itself.
func endOf(ctx interface{ Done() <-chan struct{} }) int64 {
	if bounded, ok := ctx.(counting.Deadline); ok {
		return max(int64(bounded.Ends().Sub(origin))+1, 1)
	}
	return 0
}

// expect sees to it that a sweep comes when the time of a job is over. n.mu is held.
func (n *node) expect(ends int64) {
	if ends == 0 || n.sweepAt != 0 && n.sweepAt <= ends {
		return
	}
	n.sweepAt = ends
	left := time.Duration(ends - monotonic())
	if n.sweeper == nil {
		n.sweeper = time.AfterFunc(left, n.sweep)
	} else {
		n.sweeper.Reset(left)
	}
}

// watch has a batch swept whose jobs did not come from the queue.
func (n *node) watch(b *batch, ends int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, j := range b.jobs {
		j.ends = ends
	}
	n.flights = append(n.flights, b)
	n.expect(ends)
}

// unwatch ends the sweeps of a batch. From then on its jobs may be finished. n.mu is held.
func (n *node) unwatch(b *batch) {
	for i, other := range n.flights {
		if other == b {
			last := len(n.flights) - 1
			n.flights[i], n.flights[last] = n.flights[last], nil
			n.flights = n.flights[:last]
			return
		}
	}
}

// sweep tells the owners of jobs whose time is over, and plans the next sweep if jobs are left.
func (n *node) sweep() {
	if n.sweepLater() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now, next := monotonic(), int64(math.MaxInt64)
	for _, j := range n.queue {
		next = min(next, j.expire(now))
	}
	for _, b := range n.flights {
		for _, j := range b.jobs {
			next = min(next, j.expire(now))
		}
	}
	n.sweepAt = 0
	if next != math.MaxInt64 {
		n.expect(max(next, now+int64(sweepEvery)))
	}
}
