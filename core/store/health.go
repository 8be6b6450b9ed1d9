package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// errorEvery is how often errors of one class and node are reported: an
	// outage must not flood logs.
	errorEvery = 10 * time.Second

	// outageQuiet is how long nothing but the store has to decide for an outage
	// to be over. Of a Cluster, one node can be out while others answer.
	outageQuiet = time.Second

	// maxErrorKinds bounds the memory of what was reported. Classes are few, and
	// so are the nodes of a Cluster at one time; what is beyond is not reported.
	maxErrorKinds = 1024
)

// health follows how a store fares, and tells those who listen.
type health struct {
	mu        sync.Mutex
	listeners []func(Event) // Guarded by mu.
	watchers  []func(Event) // Guarded by mu.
	began     time.Time     // of the outage. Guarded by mu.

	out    atomic.Bool
	last   atomic.Int64 // when an outage policy last decided: nanoseconds on the monotonic clock
	errors sync.Map     // of errorKind to *errorCount
	kinds  atomic.Int64
}

type errorKind struct {
	class Class
	node  string
}

type errorCount struct {
	unreported atomic.Int64
	next       atomic.Int64 // when it may be reported again, as health.last
}

// origin is when nanoseconds are counted from.
var origin = time.Now()

// nanoseconds returns them on the monotonic clock, and never 0.
func nanoseconds() int64 { return int64(time.Since(origin)) + 1 }

func (h *health) listen(f func(Event)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = append(slices.Clone(h.listeners), f)
}

func (h *health) watch(f func(Event)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers = append(slices.Clone(h.watchers), f)
}

func (h *health) emit(e Event) {
	h.mu.Lock()
	listeners, watchers := h.listeners, h.watchers
	h.mu.Unlock()
	if len(listeners) == 0 {
		e.log()
	}
	for _, f := range watchers {
		f(e)
	}
	for _, f := range listeners {
		f(e)
	}
}

// failed notes that the store did not answer a check.
func (h *health) failed(err error) {
	now, e := nanoseconds(), errorOf(err)
	h.last.Store(now)
	if !h.out.Load() && !h.out.Swap(true) {
		h.mu.Lock()
		h.began = time.Now()
		h.mu.Unlock()
		h.emit(Event{Kind: EventOutageBegan, Class: e.Class, Node: e.Node, Err: err})
	}
	if e.Class != ClassOpen { // the breaker's own event has told of it
		h.count(errorKind{e.Class, e.Node}, now, err)
	}
}

func (h *health) count(kind errorKind, now int64, err error) {
	known, ok := h.errors.Load(kind)
	if !ok {
		if h.kinds.Add(1) > maxErrorKinds {
			return
		}
		known, _ = h.errors.LoadOrStore(kind, new(errorCount))
	}
	c := known.(*errorCount)
	c.unreported.Add(1)
	next := c.next.Load()
	if now < next || !c.next.CompareAndSwap(next, now+int64(errorEvery)) {
		return
	}
	h.emit(Event{Kind: EventStoreError, Class: kind.class, Node: kind.node, Err: err, Count: c.unreported.Swap(0)})
}

// answered notes that the store decided.
func (h *health) answered() {
	if !h.out.Load() || nanoseconds()-h.last.Load() < int64(outageQuiet) || !h.out.Swap(false) {
		return
	}
	h.mu.Lock()
	lasted := time.Since(h.began)
	h.mu.Unlock()
	h.emit(Event{Kind: EventOutageEnded, Duration: lasted})
}
