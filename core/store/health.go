package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// errorEvery is the least time between reports of errors of one class and node, so
	// that an outage does not flood logs.
	errorEvery = 10 * time.Second

	// outageQuiet is how long the store has to make all decisions for an outage to be
	// over. One answer is not enough: one node of a Cluster can fail while others answer.
	outageQuiet = time.Second

	// maxErrorKinds bounds the number of pairs of class and node whose errors are counted.
	// Errors of further pairs are not reported.
	maxErrorKinds = 1024
)

// health tracks a store's errors and outages, and reports events to listeners.
type health struct {
	mu        sync.Mutex
	listeners []func(Event)            // Guarded by mu.
	watchers  []func(Event)            // Guarded by mu.
	began     time.Time                // of the outage. Guarded by mu.
	lost      int64                    // settlements that are not reported yet. Guarded by mu.
	lostNext  time.Time                // when they may be reported. Guarded by mu.
	lostLater bool                     // a timer is going to report them. Guarded by mu.
	changes   map[healthState]*changes // of states that changed a moment ago. Guarded by mu.

	out    atomic.Bool
	checks atomic.Int64 // that failed in the outage
	class  atomic.Value // a Class: why, or "" if for several reasons
	last   atomic.Int64 // when the last check failed: nanoseconds on the monotonic clock
	errors sync.Map     // of errorKind to *errorCount
	kinds  atomic.Int64
}

type errorKind struct {
	class Class
	node  string
}

type errorCount struct {
	unreported atomic.Int64
	next       atomic.Int64 // when it may be reported again: nanoseconds on the monotonic clock; 0 before the first,
	// since in a bubble of testing/synctest all times are negative
}

// origin is the start of nanoseconds.
var origin = time.Now()

// nanoseconds returns the nanoseconds on the monotonic clock since origin, at least 1.
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

// emit tells an event to all, and reports whether listeners have heard it: see paced.
func (h *health) emit(e Event) (heard bool) {
	heard = h.paced(&e)
	h.show(e)
	if heard {
		h.hear(e, true)
	}
	return heard
}

// show tells an event to watchers.
func (h *health) show(e Event) {
	h.mu.Lock()
	watchers := h.watchers
	h.mu.Unlock()
	for _, f := range watchers {
		f(e)
	}
}

// hear tells an event to listeners. If there is none it is logged; without log it is not, since the line before has
// said the same.
func (h *health) hear(e Event, log bool) {
	h.mu.Lock()
	listeners := h.listeners
	h.mu.Unlock()
	if log && len(listeners) == 0 {
		e.log()
	}
	for _, f := range listeners {
		f(e)
	}
}

// failed records that the store did not answer a check.
func (h *health) failed(err error) {
	now, e := nanoseconds(), errorOf(err)
	h.last.Store(now)
	h.checks.Add(1)
	logged := false // by the event of the outage
	if !h.out.Load() && !h.out.Swap(true) {
		h.mu.Lock()
		h.began = time.Now()
		h.mu.Unlock()
		h.class.Store(e.Class)
		logged = h.emit(Event{Kind: EventOutageBegan, Class: e.Class, Node: e.Node, Err: err})
	} else if class := h.class.Load(); class != e.Class && class != Class("") {
		h.class.CompareAndSwap(class, Class(""))
	}
	if e.Class != ClassOpen { // reported by EventBreakerOpened
		h.count(errorKind{e.Class, e.Node}, now, err, logged)
	}
}

// count counts an error, and reports it unless one of its kind was reported just now. logged says that the event
// of its outage has logged all of it.
func (h *health) count(kind errorKind, now int64, err error, logged bool) {
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
	if next != 0 && now < next || !c.next.CompareAndSwap(next, now+int64(errorEvery)) {
		return
	}
	n := c.unreported.Swap(0)
	e := Event{Kind: EventStoreError, Class: kind.class, Node: kind.node, Err: err, Count: n}
	h.show(e)
	h.hear(e, !logged || n > 1)
}

// answered records that the store decided.
func (h *health) answered() {
	if !h.out.Load() || nanoseconds()-h.last.Load() < int64(outageQuiet) || !h.out.Swap(false) {
		return
	}
	h.mu.Lock()
	lasted := time.Since(h.began)
	h.mu.Unlock()
	class, _ := h.class.Load().(Class)
	h.emit(Event{Kind: EventOutageEnded, Class: class, Count: h.checks.Swap(0), Duration: lasted})
}

// lose records settlements that are given up. The first are reported at once, and those that
// follow together.
func (h *health) lose(n int64, err error) {
	h.mu.Lock()
	h.lost += n
	later := time.Until(h.lostNext)
	if later > 0 {
		if !h.lostLater {
			h.lostLater = true
			time.AfterFunc(later, func() {
				h.mu.Lock()
				h.lostLater = false
				h.mu.Unlock()
				h.lose(0, err)
			})
		}
		h.mu.Unlock()
		return
	}
	count := h.lost
	h.lost, h.lostNext = 0, time.Now().Add(errorEvery)
	h.mu.Unlock()
	if e := errorOf(err); count > 0 {
		h.emit(Event{Kind: EventSettlementsLost, Class: e.Class, Node: e.Node, Err: err, Count: count})
	}
}
