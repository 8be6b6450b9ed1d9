package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// maxFlights is how many round trips a node is asked to make at a time. One
	// would leave it idle while answers are read; more make small batches of what
	// could be decided together: four took 1.7 times as long as two for 64 callers
	// of one key, and were no better for 16 or 256, or for many keys.
	maxFlights = 2

	// maxWaiting is how many parts can wait for a node. Those beyond fail at once.
	maxWaiting = 8192

	// unhurried bounds round trips that nobody gave a deadline.
	unhurried = 3 * time.Second
)

// node is one server, and the queue for it. A check that finds a place free is
// sent at once. While all places are taken, checks wait, and the next round trip
// takes them along: the more wait, the more each round trip decides. Nothing
// waits for a timer, and no goroutine waits for checks.
type node struct {
	store  *Store
	client caller
	name   string
	moves  func() // tells the route that another node may have to be asked; or nil

	breaker breaker
	allowed atomic.Int64 // how long a check may take, as a rule: nanoseconds; see allow
	moved   atomic.Int64 // when a flight last ended, or began where there was none: on the monotonic clock

	// proven says that the last flight was answered, so that there are
	// connections. Else a flight is no request's own: making a connection does
	// not always keep to a deadline. go-redis's TLS dialer and its questions to
	// sentinels don't, and one dial waits for the end of another.
	proven atomic.Bool

	mu      sync.Mutex
	flying  int     // round trips under way, up to maxFlights. Guarded by mu.
	waiting []*part // in order of arrival. Guarded by mu.
}

// do has a part decided, and returns by the context's deadline.
func (n *node) do(ctx context.Context, p *part) error {
	f, err := n.enter(p)
	if err != nil {
		return err
	}
	if f == nil {
		return n.wait(ctx, p)
	}
	ends, bounded := ctx.Deadline()
	if left := time.Until(ends); bounded && left > 0 && !n.proven.Load() {
		n.allow(left)
		go n.flyAlone(left, f)
		return n.wait(ctx, p)
	}
	n.fly(ctx, f, p)
	return n.explain(p.err)
}

// start puts parts on their way without waiting for them. They lead no flight.
func (n *node) start(ctx context.Context, ps []*part) error {
	left := time.Duration(0)
	if ends, bounded := ctx.Deadline(); bounded {
		if left = time.Until(ends); left <= 0 {
			return n.storeError(store.ClassTimeout, context.DeadlineExceeded)
		}
		n.allow(left)
	}
	f, err := n.enter(ps...)
	if f != nil {
		go n.flyAlone(left, f)
	}
	return err
}

// enter queues parts, or returns a flight if a place is free: the caller has to
// see to it that it is flown.
func (n *node) enter(ps ...*part) (*flight, error) {
	if n.breaker.isOpen() {
		return nil, n.refuse(ps[0])
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.flying < maxFlights {
		if n.flying == 0 {
			n.moved.Store(monotonic())
		}
		n.flying++
		f := newFlight()
		f.direct = true
		for _, p := range ps {
			p.state.Store(flying)
			f.parts = append(f.parts, p)
		}
		return f, nil
	}
	if len(n.waiting)+len(ps) > maxWaiting {
		return nil, n.storeError(store.ClassOverload, errors.New("too many checks wait for an answer"))
	}
	for _, p := range ps {
		p.state.Store(queued)
		n.waiting = append(n.waiting, p)
	}
	return nil, nil
}

// wait returns when p has landed, or the context ends.
func (n *node) wait(ctx context.Context, p *part) error {
	if !p.wait(ctx) {
		err := n.storeError(store.ClassTimeout, context.DeadlineExceeded)
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			n.overdue(err)
		}
		return err
	}
	if f := p.flight; f != nil {
		p.flight = nil
		n.fly(ctx, f, p)
	}
	return n.explain(p.err)
}

// wait reports whether the part has landed, or leads, before the context ends.
// Otherwise it is abandoned.
func (p *part) wait(ctx context.Context) bool {
	if bounded, ok := ctx.(interface{ Ends() time.Time }); ok { // nothing else ends it
		left := time.Until(bounded.Ends())
		if p.timer == nil {
			p.timer = time.NewTimer(left)
		} else {
			p.timer.Reset(left)
		}
		select {
		case <-p.landed:
			p.timer.Stop()
			return true
		case <-p.timer.C:
		}
	} else {
		select {
		case <-p.landed:
			return true
		case <-ctx.Done():
		}
	}
	if p.state.CompareAndSwap(queued, abandoned) || p.state.CompareAndSwap(flying, abandoned) {
		return false
	}
	<-p.landed // it has landed in the meantime
	return true
}

// fly makes a flight's round trip, led by p's owner, and sees that the next one
// begins.
func (n *node) fly(ctx context.Context, f *flight, p *part) {
	ends, bounded := ctx.Deadline()
	left := time.Until(ends)
	if bounded && left <= 0 {
		n.pass(f, p)
		return
	}
	// The round trip is made for others, too: only time ends it.
	if bounded {
		if f.direct {
			n.allow(left)
		}
		n.run(f.during(ctx, ends, left), left, f)
		f.after()
	} else {
		n.run(context.WithoutCancel(ctx), 0, f)
	}
	n.next()
	f.land(p)
	f.release()
}

// flyAlone makes a flight's round trip on a goroutine of its own. There are no
// more of those than places on the node. If no time is given, nobody has a
// deadline.
func (n *node) flyAlone(left time.Duration, f *flight) {
	limit := left
	if limit == 0 {
		limit = unhurried
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	n.run(ctx, left, f)
	n.next()
	f.land(nil)
	f.release()
}

// run makes the round trip, for which there is some time left or, if that is 0,
// any, and tells the breaker.
func (n *node) run(ctx context.Context, left time.Duration, f *flight) {
	began := monotonic()
	f.run(ctx, n.client, n.store.now())
	ended := monotonic()
	n.moved.Store(ended)
	err := f.outcome()
	n.proven.Store(err == nil)
	short := left > 0 && left < n.usual()/2 // too short to say how the node fares
	switch {
	case err != nil && short && classOf(err) == store.ClassTimeout:
	case err != nil:
		n.fail(n.storeError(classOf(err), err))
	case left > 0 && !short && time.Duration(ended-began) >= left/4*slowShare:
		n.fail(n.storeError(store.ClassTimeout, errors.New("the answer took nearly all of its time")))
	default:
		n.breaker.succeeded()
	}
}

// next begins a flight with what waits, or frees the place.
func (n *node) next() {
	n.mu.Lock()
	f := n.board()
	if f == nil {
		n.flying--
		n.mu.Unlock()
		return
	}
	n.mu.Unlock()
	n.appoint(f)
}

// board takes the next parts from the queue. n.mu is held.
func (n *node) board() *flight {
	var f *flight
	taken, work := 0, 0
	for _, p := range n.waiting {
		if f != nil && (len(f.parts) == maxParts || work+p.work > maxWork) {
			break
		}
		taken++
		if !p.state.CompareAndSwap(queued, flying) {
			continue // abandoned
		}
		if f == nil {
			f = newFlight()
		}
		f.parts = append(f.parts, p)
		work += p.work
	}
	left := copy(n.waiting, n.waiting[taken:])
	clear(n.waiting[left:])
	n.waiting = n.waiting[:left]
	return f
}

// appoint makes one of the parts' owners lead the flight: the one that came last,
// whose deadline is the last, so that the round trip is not cut short for the
// others. After that the flight is the leader's alone.
func (n *node) appoint(f *flight) {
	for i := len(f.parts) - 1; i >= 0 && n.proven.Load(); i-- {
		p := f.parts[i]
		if p.leads && p.state.CompareAndSwap(flying, leading) {
			p.flight = f
			p.landed <- struct{}{}
			return
		}
	}
	for _, p := range f.parts {
		if p.state.Load() != abandoned {
			go n.flyAlone(time.Duration(n.allowed.Load()), f)
			return
		}
	}
	f.release()
	n.next()
}

// pass gives up the lead of a flight for want of time.
func (n *node) pass(f *flight, p *part) {
	p.err = context.DeadlineExceeded
	for i := range f.parts {
		if f.parts[i] == p {
			f.parts = append(f.parts[:i], f.parts[i+1:]...)
			break
		}
	}
	if len(f.parts) == 0 {
		f.release()
		n.next()
		return
	}
	n.appoint(f)
}

// land tells the parts' owners, except the leader, who knows.
func (f *flight) land(leader *part) {
	for _, p := range f.parts {
		if p != leader && p.state.CompareAndSwap(flying, landed) {
			p.landed <- struct{}{}
		}
	}
}

// explain returns an error with its class and node; redirections are not errors yet.
func (n *node) explain(err error) error {
	if err == nil {
		return nil
	}
	return n.storeError(classOf(err), err)
}

func (n *node) storeError(class store.Class, err error) *store.Error {
	var known *store.Error
	if errors.As(err, &known) {
		return known
	}
	return &store.Error{Class: class, Node: n.name, Err: keyless(err)}
}
