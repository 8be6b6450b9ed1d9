package redisstore

// How a node fares: what counts as a failure, what happens to checks while it is
// not asked, and how it is found to answer again. See breaker.

import (
	"context"
	"errors"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// fail notes that the node failed, and turns checks away if it does so often.
func (n *node) fail(cause *store.Error) {
	if n.moves != nil {
		n.moves()
	}
	if n.breaker.failed(cause) {
		n.store.out.Add(1)
		n.store.Registry().Report(store.Event{Kind: store.EventBreakerOpened, Class: cause.Class, Node: n.name, Err: cause})
		n.turnAway(cause)
	}
}

// refuse says why the node is not asked, and sees that it is probed.
func (n *node) refuse(p *part) error {
	if n.breaker.wantsProbe() {
		go n.probe(string(p.Key(0)))
	}
	err := errors.New("it has failed before")
	if cause := n.breaker.cause.Load(); cause != nil {
		err = cause.Err
	}
	return n.storeError(store.ClassOpen, err)
}

// turnAway has all who wait fail now.
func (n *node) turnAway(cause error) {
	n.mu.Lock()
	waiting := n.waiting
	n.waiting = nil
	n.mu.Unlock()
	for _, p := range waiting {
		p.err = cause
		if p.state.CompareAndSwap(queued, landed) {
			p.landed <- struct{}{}
		}
	}
}

// probe asks the node for a real decision, on a key of its own in the slot of one
// that was asked for: a ping would tell nothing of a server that can't write.
func (n *node) probe(key string) {
	p := newPart(take, 0)
	p.add(0, &store.Check{Rule: &probeRule, Cost: 1}, 0)
	p.SealWith(key + ":probe")
	f := newFlight()
	f.parts = append(f.parts, p)
	ctx, cancel := context.WithTimeout(context.Background(), max(n.usual(), store.DefaultTimeout)) // or checks in a hurry would keep the breaker open
	defer cancel()
	f.run(ctx, n.client, n.store.now())
	err := f.outcome()
	f.release()
	if err != nil {
		if n.moves != nil {
			n.moves()
		}
		n.breaker.probed()
		return
	}
	if open := n.breaker.close(); open > 0 {
		n.store.out.Add(-1)
		n.store.Registry().Report(store.Event{Kind: store.EventBreakerClosed, Node: n.name, Duration: open})
	}
}

// probeRule forgets a probe within a second.
var probeRule = func() store.Rule {
	r, err := store.NewRule("probe", store.Numbers{Algorithm: store.TokenBucket, Quota: 1000, Window: time.Second})
	if err != nil {
		panic(err)
	}
	return r
}()

// overdue counts a check that was not answered in time as a failure of the node
// when no flight has ended for twice as long: all places may be taken by flights
// that hang where no deadline reaches.
func (n *node) overdue(cause *store.Error) {
	if time.Duration(monotonic()-n.moved.Load()) > 2*n.usual() {
		n.fail(cause)
	}
}

// allow notes how long a check may take. One that has little time left, after a
// first round trip, does not tell, nor does one with all the time in the world:
// what is noted falls step by step.
func (n *node) allow(left time.Duration) {
	known := n.allowed.Load()
	if known == int64(left) {
		return
	}
	n.allowed.Store(max(int64(left), known-known/4))
}

// usual returns how long a round trip may take that no request waits for by itself.
func (n *node) usual() time.Duration {
	if allowed := n.allowed.Load(); allowed > 0 {
		return time.Duration(allowed)
	}
	return store.DefaultTimeout
}
