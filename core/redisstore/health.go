package redisstore

// The health of a node: what counts as a failure, what happens to jobs while the
// node is not asked, and how it is found to answer again. breaker.go has the counts.

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
	"weak"

	"github.com/weblimit/weblimit/core/store"
)

// slowQuarters: a round trip that takes this many quarters of its time counts as a
// failure.
const slowQuarters = 3

// health is what is known of whether a node answers. All goroutines read it, and
// those that run batches write it.
type health struct {
	breaker breaker

	// typicalTimeout is how long a check may take, as a rule, in nanoseconds; 0 until
	// a check has set a deadline. See noteTimeout.
	typicalTimeout atomic.Int64

	// progress is when a round trip last ended, or began while there was none, on the
	// monotonic clock.
	progress atomic.Int64

	// connected says that the last round trip was answered, so there are connections.
	// If not, no request's goroutine makes a round trip: connecting does not always
	// keep to a deadline. go-redis's TLS dialer and its questions to sentinels don't,
	// and one dial waits for the end of another.
	connected atomic.Bool
}

// note notes the outcome of a round trip that began at a time and had some time left,
// or any if that is 0. key is one that it was made for.
func (n *node) note(err error, key []byte, began int64, left time.Duration) {
	ended := monotonic()
	n.progress.Store(ended)
	n.connected.Store(err == nil)
	short := left > 0 && left < n.usualTimeout()/2 // too short to say anything about the node
	switch {
	case err != nil && short && classOf(err) == store.ClassTimeout:
	case err != nil:
		n.fail(n.storeError(classOf(err), err), string(key))
	case left > 0 && !short && time.Duration(ended-began) >= left/4*slowQuarters && !n.wasStarved(time.Duration(ended-began), left):
		n.fail(n.storeError(store.ClassTimeout, errors.New("the answer took nearly all of its time")), string(key))
	default:
		n.breaker.succeeded()
	}
}

// fail counts a failure of the node, at a check of a key. If that opens the breaker, it
// reports an event, fails all jobs that wait, and has the node probed.
func (n *node) fail(cause *store.Error, key string) {
	if n.onFailure != nil {
		n.onFailure()
	}
	if n.left.Load() || !n.breaker.failed(cause, key) {
		return
	}
	n.store.openBreakers.Add(1)
	n.store.Registry().Report(store.Event{Kind: store.EventBreakerOpened, Class: cause.Class, Node: n.name, Err: cause})
	n.failQueued(cause)
	if n.left.Load() { // meanwhile
		n.closeBreaker(errLeft)
		return
	}
	if n.breaker.probing.CompareAndSwap(false, true) {
		n.probeLater()
	}
}

// closeBreaker has the node asked again, and reports an event if its breaker was open. why is nil if the node
// has answered.
func (n *node) closeBreaker(why error) {
	if open := n.breaker.close(); open > 0 {
		n.store.openBreakers.Add(-1)
		n.store.Registry().Report(store.Event{Kind: store.EventBreakerClosed, Node: n.name, Duration: open, Err: why})
	}
}

// errLeft is why the breaker of a node closes that has not answered.
var errLeft = errors.New("the node is no longer one of the Cluster's or Ring's")

// leave says that checks do not come to the node any more, unless they are on their way to it: so nobody waits
// for its answer, and its breaker is closed for good.
func (n *node) leave() {
	n.left.Store(true)
	n.closeBreaker(errLeft)
}

// failIfStuck counts a check that was not answered in time as a failure of the node,
// if no round trip has ended for twice as long. Then all places may be taken by round
// trips that hang where no deadline reaches.
func (n *node) failIfStuck(cause *store.Error, key string) {
	if time.Duration(monotonic()-n.progress.Load()) > 2*n.usualTimeout() {
		n.fail(cause, key)
	}
}

// refuse returns the error of a job for which the node is not asked, and sees to it
// that the node is probed.
func (n *node) refuse(j *job) error {
	if n.breaker.wantsProbe() {
		key := string(j.Key(0))
		n.breaker.probeKey.Store(&key)
		go n.probe()
	}
	err := errors.New("it has failed before")
	if cause := n.breaker.cause.Load(); cause != nil {
		err = cause.Err
	}
	return n.storeError(store.ClassOpen, err)
}

// probeLater has a timer start the next probe. The timer holds the node weakly, so that
// a store that nobody uses any more is garbage.
func (n *node) probeLater() {
	held := weak.Make(n)
	time.AfterFunc(n.breaker.planProbe(), func() {
		if n := held.Value(); n != nil {
			n.probe()
		}
	})
}

// pauseProbes ends the probes until the next check for the node.
func (n *node) pauseProbes(err error) {
	n.breaker.cause.Store(n.storeError(classOf(err), err))
	n.breaker.planProbe()
	n.breaker.probing.Store(false)
}

// probeRarely has a timer probe a node that nobody asks for, if no check has had it probed until then: or its breaker
// would stay open, and be shown as open, after it has answered or left.
func (n *node) probeRarely() {
	held := weak.Make(n)
	time.AfterFunc(n.store.patience.idle, func() {
		if n := held.Value(); n != nil && n.breaker.isOpen() && n.breaker.probing.CompareAndSwap(false, true) {
			n.probe()
		}
	})
}

// probe asks the node for a real decision, and closes the breaker if it answers. If not, it
// plans the next probe: a late one if nobody has asked for the node for long, and none if its client is closed
// or it has left. There is one probe per node at a time; see breaker.probing.
func (n *node) probe() {
	err := n.askForProbe(*n.breaker.probeKey.Load())
	if err != nil && n.onFailure != nil {
		n.onFailure()
	}
	switch {
	case err == nil:
		n.breaker.probing.Store(false) // first, or a breaker that opens at once would not be probed
		n.closeBreaker(nil)
	case n.left.Load():
		n.breaker.probing.Store(false)
	case classOf(err) == store.ClassClosed:
		n.closed.Store(true)
		n.pauseProbes(err)
	case n.breaker.isIdle():
		n.pauseProbes(err)
		n.probeRarely()
	default:
		n.probeLater()
	}
}

// askForProbe makes the round trip of a probe. It uses a Redis key of its own, in the slot of
// one that was asked for. A PING would say nothing about a server that can't write.
func (n *node) askForProbe(key string) error {
	j := newJob(take, 0)
	j.add(0, &store.Check{Rule: &probeRule, Cost: 1}, 0)
	j.SealWith(key + ":probe")
	b := newBatch()
	b.jobs = append(b.jobs, j)
	// At least the default, or checks with short deadlines would keep the breaker open.
	left := max(n.usualTimeout(), store.DefaultTimeout)
	b.run(b.contextUntil(context.Background(), time.Now().Add(left), left), n.client, n.store.now())
	b.endContext()
	defer b.release()
	return b.nodeError()
}

// probeRule is the limit of probes. Its value expires within a second.
var probeRule = func() store.Rule {
	r, err := store.NewRule("probe", store.Numbers{Algorithm: store.TokenBucket, Quota: 1000, Window: time.Second})
	if err != nil {
		panic(err)
	}
	return r
}()

// noteTimeout notes how long a check may take. The noted time rises at once, and
// falls by a quarter per check: a check that has little time left after a first round
// trip says little.
func (h *health) noteTimeout(left time.Duration) {
	known := h.typicalTimeout.Load()
	if known == int64(left) {
		return
	}
	h.typicalTimeout.Store(max(int64(left), known-known/4))
}

// usualTimeout returns the typical time-out, or the default if none is known.
func (h *health) usualTimeout() time.Duration {
	if known := h.typicalTimeout.Load(); known > 0 {
		return time.Duration(known)
	}
	return store.DefaultTimeout
}
