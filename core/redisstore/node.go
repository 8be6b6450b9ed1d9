package redisstore

// One Redis server as the store sees it, and the way of a job through it: do, start
// and wait for the owner of a job, run and background for whoever runs a batch. The
// queue is in queue.go, what counts as a failure in health.go.

import (
	"context"
	"errors"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// noDeadlineTimeout bounds round trips if no request set a deadline.
const noDeadlineTimeout = 3 * time.Second

// node is one server. A job that finds a place free is sent at once, by its owner.
// While all places are taken, jobs wait in the queue, and the next round trip takes
// them along: the more wait, the more each round trip decides. Nothing waits for a
// timer, and no goroutine waits for jobs.
type node struct {
	store  *Store
	client sender
	name   string // the server's address

	// onFailure, if not nil, tells the route that another node may have to be asked.
	onFailure func()

	health
	batchQueue
}

// do has a job decided, and returns by the context's deadline.
func (n *node) do(ctx context.Context, j *job) error {
	b, err := n.enqueue(j)
	if err != nil {
		return err
	}
	if b == nil { // queued
		return n.wait(ctx, j)
	}
	ends, bounded := ctx.Deadline()
	if left := time.Until(ends); bounded && left > 0 && !n.connected.Load() {
		// Connecting may not keep to the deadline, and this goroutine must.
		n.noteTimeout(left)
		go n.background(left, b)
		return n.wait(ctx, j)
	}
	n.run(ctx, b, j)
	return n.explain(j.err)
}

// start sends jobs, or queues them, without waiting for them. Their owner runs no
// batch, since it waits for several nodes. It has to call wait for each job.
func (n *node) start(ctx context.Context, js []*job) error {
	left := time.Duration(0)
	if ends, bounded := ctx.Deadline(); bounded {
		if left = time.Until(ends); left <= 0 {
			return n.storeError(store.ClassTimeout, context.DeadlineExceeded)
		}
		n.noteTimeout(left)
	}
	b, err := n.enqueue(js...)
	if b != nil {
		go n.background(left, b)
	}
	return err
}

// wait returns when the job is done, or the context ends. It runs the job's batch
// if the job is made its leader.
func (n *node) wait(ctx context.Context, j *job) error {
	if key, inTime := j.wait(ctx); !inTime {
		err := n.storeError(store.ClassTimeout, context.DeadlineExceeded)
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			n.failIfStuck(err, key)
		}
		return err
	}
	if b := j.batch; b != nil {
		j.batch = nil
		n.run(ctx, b, j)
	}
	return n.explain(j.err)
}

// wait reports whether the job is done, or leads a batch, before the context ends.
// If not, the job is abandoned, and wait returns its first key.
func (j *job) wait(ctx context.Context) (key string, inTime bool) {
	// The limiter's contexts say when they end, and nothing else ends them. Waiting for
	// a timer that is used again is cheaper than for the context's own.
	if bounded, ok := ctx.(store.Deadline); ok {
		left := time.Until(bounded.Ends())
		if j.timer == nil {
			j.timer = time.NewTimer(left)
		} else {
			j.timer.Reset(left)
		}
		select {
		case <-j.signal:
			j.timer.Stop()
			return "", true
		case <-j.timer.C:
		}
	} else {
		select {
		case <-j.signal:
			return "", true
		case <-ctx.Done():
		}
	}
	key = string(j.Key(0)) // an abandoned job is not the owner's any more
	if j.abandon() {
		return key, false
	}
	<-j.signal // sent in the meantime, or in a moment
	return "", true
}

// run makes a batch's round trip on the goroutine of the owner of leader, and then
// has the next batch begin.
func (n *node) run(ctx context.Context, b *batch, leader *job) {
	ends, bounded := ctx.Deadline()
	left := time.Until(ends)
	if bounded && left <= 0 {
		n.handOver(b, leader)
		return
	}
	// The round trip is made for others, too. So only time ends it, and not a client
	// that hangs up.
	if bounded {
		if b.direct {
			n.noteTimeout(left)
		}
		n.roundTrip(b.contextUntil(ctx, ends, left), left, b)
		b.endContext()
	} else {
		n.roundTrip(context.WithoutCancel(ctx), 0, b)
	}
	n.next() // first, so that Redis is busy while the answers are read
	b.finishExcept(leader)
	b.release()
}

// background makes a batch's round trip on a goroutine of its own. There are no more
// of those than maxInFlight. If left is 0, nobody has a deadline.
func (n *node) background(left time.Duration, b *batch) {
	limit := left
	if limit == 0 {
		limit = noDeadlineTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	n.roundTrip(ctx, left, b)
	n.next()
	b.finishExcept(nil)
	b.release()
}

// roundTrip makes the round trip, and reports its outcome to the node's health. left
// is how much time it has, or 0 if any.
func (n *node) roundTrip(ctx context.Context, left time.Duration, b *batch) {
	began := monotonic()
	b.run(ctx, n.client, n.store.now())
	n.note(b.nodeError(), b.jobs[0].Key(0), began, left)
}

// explain gives an error its class and node. Nil stays nil.
func (n *node) explain(err error) error {
	if err == nil {
		return nil
	}
	return n.storeError(classOf(err), err)
}

// storeError returns err as a [store.Error]. One that already is one stays as it is.
func (n *node) storeError(class store.Class, err error) *store.Error {
	var known *store.Error
	if errors.As(err, &known) {
		return known
	}
	return &store.Error{Class: class, Node: n.name, Err: keyless(err)}
}
