package redisstore

// The queue of a node: jobs that wait for a place, and who runs the next batch.
//
// A node has maxInFlight places. Each place is taken by one batch at a time, from
// enqueue or next until next finds nothing to do. While a place is taken, exactly
// one goroutine is responsible for its batch, and that goroutine must end with
// next, or jobs wait until their deadline.
//
// Other batchers (core/pgstore, service/client, quota) do without it: jobs are reused, and a caller runs the batch itself.

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// maxInFlight is how many round trips a node is asked to make at a time. One
	// would leave it idle while answers are read. More make small batches of what
	// could be decided together: four took 1.7 times as long as two for 64 callers
	// of one key, and were no better for 16 or 256, or for many keys.
	maxInFlight = 2

	// maxQueued is how many jobs can wait for a node. More fail at once.
	maxQueued = 8192
)

// batchQueue is where jobs wait.
type batchQueue struct {
	mu       sync.Mutex
	inFlight int    // places that are taken, up to maxInFlight. Guarded by mu.
	queue    []*job // in order of arrival. Guarded by mu.
	deadlines
}

// enqueue queues jobs, all of them or none. If a place is free, it takes that instead, and returns a
// batch of the jobs: the caller has to see to it that the batch is run. ends is when the owner's time is
// over; see endOf.
func (n *node) enqueue(ends int64, js ...*job) (*batch, error) {
	if n.breaker.IsOpen() {
		return nil, n.refuse(js[0])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.inFlight < maxInFlight {
		// With a place free, the queue is empty: next frees a place only then.
		if n.inFlight == 0 {
			n.progress.Store(monotonic()) // or a node that was idle for long would look stuck
		}
		n.inFlight++
		b := newBatch()
		b.direct = true
		for _, j := range js {
			j.ends = 0 // unless it is watched
			j.enterBatch()
			b.jobs = append(b.jobs, j)
		}
		return b, nil
	}
	if len(n.queue)+len(js) > maxQueued {
		return nil, n.storeError(store.ClassOverload, errors.New("too many checks wait for an answer"))
	}
	for _, j := range js {
		j.ends = ends
		j.enterQueue()
		n.queue = append(n.queue, j)
	}
	n.expect(ends)
	return nil, nil
}

// next gives the place of a batch that has ended to the next batch, or frees it.
func (n *node) next(ended *batch) {
	n.mu.Lock()
	n.unwatch(ended)
	b := n.nextBatch()
	if b == nil {
		n.inFlight--
		n.mu.Unlock()
		return
	}
	n.mu.Unlock()
	n.chooseRunner(b)
}

// nextBatch takes jobs from the head of the queue, and returns nil if none is left
// that has not been abandoned. n.mu is held.
func (n *node) nextBatch() *batch {
	var b *batch
	taken, logEntries := 0, 0
	for _, j := range n.queue {
		// At least one job, however long its log is.
		if b != nil && (len(b.jobs) == maxJobs || logEntries+j.logEntries > maxLogEntries) {
			break
		}
		taken++
		if !j.leaveQueue() {
			continue
		}
		if b == nil {
			b = newBatch()
		}
		b.jobs = append(b.jobs, j)
		logEntries += j.logEntries
	}
	left := copy(n.queue, n.queue[taken:])
	clear(n.queue[left:]) // or the array would keep jobs from reuse and collection
	n.queue = n.queue[:left]
	if b != nil {
		n.flights = append(n.flights, b)
	}
	return b
}

// chooseRunner has the owner of one of the batch's jobs run it: the one that came
// last, whose deadline is the last, so that the round trip is not cut short for the
// others. After that the batch is that goroutine's alone. Without connections no
// owner may run it, see health.connected; then a goroutine of its own does.
func (n *node) chooseRunner(b *batch) {
	for i := len(b.jobs) - 1; i >= 0 && n.connected.Load(); i-- {
		if b.jobs[i].lead(b) {
			return
		}
	}
	for _, j := range b.jobs {
		if !j.isAbandoned() { // somebody waits, so the round trip is worth making
			go n.background(time.Duration(n.typicalTimeout.Load()), b)
			return
		}
	}
	n.next(b)
	b.release()
}

// handOver gives a batch to somebody else, because the owner of leader has no time
// left to run it. leader fails.
func (n *node) handOver(b *batch, leader *job) {
	leader.err, leader.unsent = context.DeadlineExceeded, true
	n.mu.Lock() // a sweep may read the jobs
	if i := slices.Index(b.jobs, leader); i >= 0 {
		b.jobs = slices.Delete(b.jobs, i, i+1)
	}
	n.mu.Unlock()
	if len(b.jobs) == 0 {
		n.next(b)
		b.release()
		return
	}
	n.chooseRunner(b)
}

// failQueued fails all jobs that wait.
func (n *node) failQueued(cause error) {
	n.mu.Lock()
	waiting := n.queue
	n.queue = nil
	n.mu.Unlock()
	for _, j := range waiting {
		j.failInQueue(cause)
	}
}
