package redisstore

// One Redis server as the store sees it, and the way of a job through it: do, start
// and wait for the owner of a job, run and background for whoever runs a batch. The
// queue is in queue.go, what counts as a failure in health.go.

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

// node is one server. A job that finds a place free is sent at once, by its owner.
// While all places are taken, jobs wait in the queue, and the next round trip takes
// them along: the more wait, the more each round trip decides. Nothing waits for a
// timer, and no goroutine waits for jobs.
type node struct {
	store  *Store
	made   *redis.Client // that the node was made of; nil for a client of another kind
	client sender        // on the same connections
	name   string        // the server's address
	closed atomic.Bool   // the client is closed, for good
	left   atomic.Bool   // it is no longer one of the route's, for good; see leave

	// ownTimeouts says that the client may wait for longer than its context's deadline.
	ownTimeouts bool

	// onFailure, if not nil, tells the route that another node may have to be asked.
	onFailure func()

	health
	batchQueue
}

// do has a job decided, and returns by the context's deadline.
func (n *node) do(ctx context.Context, j *job) error {
	b, err := n.enqueue(endOf(ctx), j)
	if err != nil {
		return err
	}
	if b == nil { // queued
		return n.wait(ctx, j)
	}
	if !n.connected.Load() {
		if ends, bounded := ctx.Deadline(); bounded {
			return n.connect(ctx, ends, b, j)
		}
	}
	n.run(ctx, b, j)
	return n.explain(j.err)
}

// connect is the rest of do for a node without connections: connecting may not keep to the deadline, and
// the owner of a job must.
func (n *node) connect(ctx context.Context, ends time.Time, b *batch, j *job) error {
	left := n.timeFor(ctx, ends, j)
	if left == 0 {
		n.handOver(b, j)
		return n.explain(j.err)
	}
	if j.lateEnds == 0 {
		n.noteTimeout(left)
	}
	n.watch(b, max(endOf(ctx), j.lateEnds))
	go n.background(left, b)
	return n.wait(ctx, j)
}

// start sends jobs, or queues them, without waiting for them. Their owner runs no
// batch, since it waits for several nodes. It has to call wait for each job.
func (n *node) start(ctx context.Context, js []*job) error {
	left := time.Duration(0)
	if ends, bounded := ctx.Deadline(); bounded {
		if left = n.timeFor(ctx, ends, js[0]); left == 0 {
			return n.storeError(store.ClassTimeout, context.DeadlineExceeded)
		}
		if js[0].lateEnds == 0 {
			n.noteTimeout(left)
		}
		for _, j := range js {
			j.lateEnds = js[0].lateEnds
		}
	}
	ends := max(endOf(ctx), js[0].lateEnds)
	b, err := n.enqueue(ends, js...)
	if b != nil {
		n.watch(b, ends)
		go n.background(left, b)
	}
	return err
}

// wait returns when the job is done, or the context ends. It runs the job's batch
// if the job is made its leader.
func (n *node) wait(ctx context.Context, j *job) error {
	if !j.wait(ctx) {
		err := n.storeError(store.ClassTimeout, context.DeadlineExceeded)
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			n.failIfStuck(err, string(j.Key(0)))
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
// If not, the job is abandoned. Then nothing changes it any more, and it is never used again.
func (j *job) wait(ctx context.Context) (inTime bool) {
	if j.ends != 0 { // see sweep
		<-j.signal
		return !j.isAbandoned()
	}
	select {
	case <-j.signal:
		return true
	case <-ctx.Done():
	}
	if j.waitLonger(ctx) {
		return true
	}
	if j.abandon() {
		return false
	}
	<-j.signal // sent in the meantime, or in a moment
	return true
}

// run makes a batch's round trip on the goroutine of the owner of leader, and then
// has the next batch begin.
func (n *node) run(ctx context.Context, b *batch, leader *job) {
	ends, bounded := ctx.Deadline()
	left := time.Duration(0)
	if bounded {
		if left = n.timeFor(ctx, ends, leader); left == 0 {
			n.handOver(b, leader)
			return
		}
		if leader.lateEnds != 0 {
			ends = origin.Add(time.Duration(leader.lateEnds))
		} else if b.direct {
			n.noteTimeout(left)
		}
	}
	// The round trip is made for others, too. So only time ends it, and not a client
	// that hangs up.
	if bounded {
		n.roundTrip(b.contextUntil(ctx, ends, left), left, b)
	} else {
		limit := n.store.patience.unbounded
		n.roundTrip(b.contextUntil(ctx, time.Now().Add(limit), limit), 0, b)
	}
	b.endContext()
	n.next(b) // first, so that Redis is busy while the answers are read
	b.finishExcept(leader)
	b.release()
}

// background makes a batch's round trip on a goroutine of its own. There are no more
// of those than maxInFlight. If left is 0, nobody has a deadline.
func (n *node) background(left time.Duration, b *batch) {
	limit := left
	if limit == 0 {
		limit = n.store.patience.unbounded
	}
	n.roundTrip(b.contextUntil(context.Background(), time.Now().Add(limit), limit), left, b)
	b.endContext()
	n.next(b)
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
