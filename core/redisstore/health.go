package redisstore

// The health of a node: what counts as a failure, and what happens to jobs while the
// node is not asked. probe.go has how it is found to answer again.

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
)

// origin is when monotonic counts from.
var origin = time.Now()

// monotonic returns the process's monotonic clock in nanoseconds. It is never 0, so
// that 0 can stand for no time.
func monotonic() int64 { return int64(time.Since(origin)) + 1 }

// slowQuarters: a round trip that takes this many quarters of its time counts as a
// failure.
const slowQuarters = 3

// health is what is known of whether a node answers. All goroutines read it, and
// those that run batches write it.
//
// Its breaker has a node's checks come back through no more connections than before, since the node's queue bounds
// them. No check probes: that would have a request wait.
type health struct {
	breaker breaker.Breaker
	probed

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
		n.breaker.Answered()
	}
}

// fail counts a failure of the node, at a check of a key. If that opens the breaker, it
// reports an event, fails all jobs that wait, and has the node probed.
func (n *node) fail(cause *store.Error, key string) {
	if n.onFailure != nil {
		n.onFailure()
	}
	if n.left.Load() || n.breaker.IsOpen() {
		return
	}
	n.wantedAt(key)
	if !n.breaker.Failed(cause) {
		return
	}
	n.store.openBreakers.Add(1)
	n.store.Registry().Report(store.Event{Kind: store.EventBreakerOpened, Class: cause.Class, Node: n.name, Err: cause})
	n.failQueued(cause)
	if n.left.Load() { // meanwhile
		n.closeBreaker(errLeft)
		return
	}
	if n.breaker.TakeTurn() {
		n.probeLater()
	}
}

// closeBreaker has the node asked again, and reports an event if its breaker was open. why is nil if the node
// has answered.
func (n *node) closeBreaker(why error) {
	if open := n.breaker.Close(); open > 0 {
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
