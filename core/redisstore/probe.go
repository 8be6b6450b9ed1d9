package redisstore

// How a node whose breaker is open is found to answer again: by a timer, so that no request waits for that, and
// while checks are refused.

import (
	"context"
	"sync/atomic"
	"time"
	"weak"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
)

// idleAfter is how long probes go on at the breaker's pace after the last check for the node. Then they are
// rare, patience.idle apart, until the next check.
const idleAfter = 5 * time.Minute

// probed is what probes of a node go by.
type probed struct {
	asked    atomic.Int64           // when a check last wanted the node, on the monotonic clock
	probeKey atomic.Pointer[string] // that probes use; set before the breaker opens
}

// wantedAt notes that a check of a key wanted the node.
func (p *probed) wantedAt(key string) {
	p.probeKey.Store(&key)
	p.asked.Store(monotonic())
}

// isIdle reports whether no check has wanted the node for long.
func (p *probed) isIdle() bool { return monotonic()-p.asked.Load() > int64(idleAfter) }

// wantsProbe notes that a check was refused, and reports whether its caller has to start
// the probes: they have ended, and the next one is due. No other caller gets true then.
func (h *health) wantsProbe() bool {
	if now := monotonic(); now-h.asked.Load() > int64(time.Second) { // a read is cheaper than a write that all processors see
		h.asked.Store(now)
	}
	return h.breaker.TryProbe(breaker.Forever)
}

// refuse returns the error of a job for which the node is not asked, and sees to it
// that the node is probed.
func (n *node) refuse(j *job) error {
	if n.wantsProbe() {
		key := string(j.Key(0))
		n.probeKey.Store(&key)
		go n.probe()
	}
	return n.storeError(store.ClassOpen, n.breaker.Cause().Err)
}

// probeLater has a timer start the next probe. The timer holds the node weakly, so that
// a store that nobody uses any more is garbage.
func (n *node) probeLater() {
	held := weak.Make(n)
	time.AfterFunc(breaker.NextPause(), func() {
		if n := held.Value(); n != nil {
			n.probe()
		}
	})
}

// pauseProbes ends the probes until the next check for the node.
func (n *node) pauseProbes(err error) {
	n.breaker.StaysOpen(n.storeError(classOf(err), err))
	n.breaker.Again()
}

// probeRarely has a timer probe a node that nobody asks for, if no check has had it probed until then: or its breaker
// would stay open, and be shown as open, after it has answered or left.
func (n *node) probeRarely() {
	held := weak.Make(n)
	time.AfterFunc(n.store.patience.idle, func() {
		if n := held.Value(); n != nil && n.breaker.IsOpen() && n.breaker.TakeTurn() {
			n.probe()
		}
	})
}

// probe asks the node for a real decision, and closes the breaker if it answers. If not, it
// plans the next probe: a late one if nobody has asked for the node for long, and none if its client is closed
// or it has left. It has the breaker's turn, so that there is one probe per node at a time.
func (n *node) probe() {
	err := n.askForProbe(*n.probeKey.Load())
	if err != nil && n.onFailure != nil {
		n.onFailure()
	}
	switch {
	case err == nil:
		n.breaker.Again() // first, or a breaker that opens at once would not be probed
		n.closeBreaker(nil)
	case n.left.Load():
		n.breaker.Again()
	case classOf(err) == store.ClassClosed:
		n.closed.Store(true)
		n.pauseProbes(err)
	case n.isIdle():
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
