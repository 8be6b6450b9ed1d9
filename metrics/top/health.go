package top

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// Health is how a process sees its stores, by their events since its limiters were made. Events
// do not say which store they are of: with several, it is that of all.
type Health struct {
	// Out is true while a store does not answer, and requests are decided without it.
	Out bool

	// Since is when the outage began, or if there is none, when the last one ended. It is zero if
	// there was none. What [core.Event.Slow] says was only a slow store is none when it has ended.
	Since time.Time

	// Class is why the last outage began, such as store.ClassTimeout, and Lasted how long it was.
	Class  string
	Lasted time.Duration // 0 while it lasts

	// Open are servers that are not asked, since they failed too often: the first 8 in the order of
	// their names.
	Open []Breaker
}

// Breaker is a server that is not asked.
type Breaker struct {
	Node  string // its address
	Since time.Time
	Class string // of the error that was the last
}

const (
	maxOpen      = 8   // breakers in a snapshot
	maxNodes     = 256 // that are followed
	maxNodeBytes = 128 // of what is published of an address or a class
)

// health follows the events of the stores. Its zero value is ready to use.
type health struct {
	mu      sync.Mutex
	outages int                // stores that do not answer. Guarded by mu.
	last    Health             // without Open. Guarded by mu.
	before  Health             // last before the outage. Guarded by mu.
	open    map[string]Breaker // by node. Guarded by mu.
}

// StoreEvent implements [core.Observer].
func (t *Tracker) StoreEvent(e core.Event) {
	h, now := &t.health, time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Kind {
	case store.EventOutageBegan:
		if h.outages++; h.outages == 1 {
			h.before = h.last
			h.last = Health{Out: true, Since: now, Class: printable(string(e.Class))}
		}
	case store.EventOutageEnded:
		if h.outages == 0 {
			return // it began before this process heard of events
		}
		if h.outages--; h.outages == 0 {
			h.last.Out, h.last.Lasted, h.last.Since = false, now.Sub(h.last.Since), now
			if e.Slow() {
				h.last = h.before
			}
		}
	case store.EventBreakerOpened:
		if _, known := h.open[e.Node]; known || len(h.open) < maxNodes {
			if h.open == nil {
				h.open = make(map[string]Breaker)
			}
			h.open[strings.Clone(e.Node)] = Breaker{printable(e.Node), now, printable(string(e.Class))}
		}
	case store.EventBreakerClosed:
		delete(h.open, e.Node)
	case store.EventStoreError, store.EventSettlementsLost:
	}
}

// now returns the health as it is published.
func (h *health) now() Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.last
	for _, b := range h.open {
		out.Open = append(out.Open, b)
	}
	slices.SortFunc(out.Open, func(a, b Breaker) int { return strings.Compare(a.Node, b.Node) })
	if len(out.Open) > maxOpen {
		out.Open = slices.Clip(out.Open[:maxOpen])
	}
	return out
}

// printable returns an address or a class as snapshots have it: printable ASCII of bounded length.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), maxNodeBytes)])
}

const flagOut = 1

// append encodes the health: flags | since | class | lasted, in milliseconds | breakers, each
// with node, since and class.
func (h *Health) append(dst []byte) []byte {
	flags := byte(0)
	if h.Out {
		flags = flagOut
	}
	dst = appendMoment(append(dst, flags), h.Since)
	dst = appendText(dst, printable(h.Class))
	dst = appendCount(dst, h.Lasted.Milliseconds())
	open := h.Open[:min(len(h.Open), maxOpen)]
	dst = appendCount(dst, int64(len(open)))
	for _, b := range open {
		dst = appendText(dst, printable(b.Node))
		dst = appendMoment(dst, b.Since)
		dst = appendText(dst, printable(b.Class))
	}
	return dst
}

// appendMoment appends a time to a millisecond, 0 for none.
func appendMoment(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, 0)
	}
	return appendCount(dst, t.UnixMilli())
}

func (d *decoder) health() (h Health) {
	flags := d.byte()
	if flags > flagOut {
		d.fail("unknown flags")
	}
	h.Out = flags&flagOut != 0
	h.Since, h.Class = d.moment(), d.printable()
	h.Lasted = time.Duration(min(d.count(), maxLasted)) * time.Millisecond
	n := d.number(3)
	if n > maxOpen {
		d.fail("%d breakers", n)
		return h
	}
	for range n {
		h.Open = append(h.Open, Breaker{d.printable(), d.moment(), d.printable()})
	}
	return h
}

// maxLasted bounds the length of an outage, in milliseconds, to what a time.Duration holds.
const maxLasted = 1 << 43

func (d *decoder) moment() time.Time {
	if n := d.count(); n > 0 {
		return time.UnixMilli(n)
	}
	return time.Time{}
}

// printable reads what printable has returned.
func (d *decoder) printable() string {
	s := d.text(maxNodeBytes)
	if d.err == nil && printable(s) != s {
		d.fail("a text that is not printable")
	}
	return s
}
