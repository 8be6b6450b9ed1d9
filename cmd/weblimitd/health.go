package main

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// How often the store is asked whether it answers, and how long it may take.
const (
	pingEvery   = time.Second
	pingTimeout = time.Second
)

// phase is where in its life the service is.
type phase int32

const (
	starting phase = iota
	serving
	draining
)

func (p phase) String() string { return [...]string{"starting", "ready", "draining"}[p] }

// health is what readiness knows.
type health struct {
	phase         atomic.Int32
	readyInOutage bool
	beat          atomic.Int64 // when the main loop was last alive, in nanoseconds since began
	began         time.Time

	mu      sync.Mutex
	silent  bool      // the last ping was not answered. Guarded by mu.
	outages int       // that events tell of. Guarded by mu.
	since   time.Time // when the store began or ceased to be away. Guarded by mu.
}

func newHealth(readyInOutage bool) *health {
	h := &health{readyInOutage: readyInOutage, began: time.Now()}
	h.since = h.began
	return h
}

func (h *health) set(p phase)   { h.phase.Store(int32(p)) }
func (h *health) now() phase    { return phase(h.phase.Load()) }
func (h *health) alive()        { h.beat.Store(int64(time.Since(h.began))) }
func (h *health) isAlive() bool { return time.Since(h.began)-time.Duration(h.beat.Load()) < aliveFor }

// aliveFor is how long the main loop may be silent; it beats each second.
const aliveFor = 30 * time.Second

// note hears of the store's events. It is called within requests, so it only takes notes.
func (h *health) note(e core.Event) {
	switch e.Kind {
	case store.EventOutageBegan:
		h.update(func() { h.outages++ })
	case store.EventOutageEnded:
		h.update(func() { h.outages = max(0, h.outages-1) })
	}
}

func (h *health) update(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.silent || h.outages > 0
	change()
	if before != (h.silent || h.outages > 0) {
		h.since = time.Now()
	}
}

// storeOut reports whether the store is away, and since when it is or is not.
func (h *health) storeOut() (out bool, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent || h.outages > 0, h.since
}

// status is the word for readiness, and whether the service is ready. During an outage of the store it
// is degraded: it decides by the policy's on_outage, which by default counts in this process. All
// instances share the store, so if they all ceased to be ready, callers would have none left.
func (h *health) status() (word string, ready bool) {
	p := h.now()
	if p != serving {
		return p.String(), false
	}
	if out, _ := h.storeOut(); out {
		return "degraded", h.readyInOutage
	}
	return p.String(), true
}

// unlessOut returns a health check of a part that fails while the store is away, where such an instance is not to be
// ready.
func (h *health) unlessOut(check http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if out, _ := h.storeOut(); out && !h.readyInOutage {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		check.ServeHTTP(w, r)
	})
}

// watch asks the store now and then, so that an outage is known without requests, until ctx ends.
func (h *health) watch(ctx context.Context, ping func(context.Context) error) {
	if ping == nil {
		return
	}
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		asked, cancel := context.WithTimeout(ctx, pingTimeout)
		err := within(asked, ping)
		cancel()
		if ctx.Err() != nil {
			return
		}
		h.update(func() {
			h.silent = err != nil
			if err == nil && h.outages > 0 && time.Since(h.since) > settled {
				h.outages = 0 // nobody has asked since, so no event has told
			}
		})
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// settled is after which time answers to pings end an outage of which no event has told the end.
const settled = 30 * time.Second

// within returns when ctx ends, whether or not the client looks at it. If it does not, the goroutine of the ping stays until the
// client gives up by itself.
func within(ctx context.Context, ping func(context.Context) error) error {
	answered := make(chan error, 1)
	go func() { answered <- ping(ctx) }()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
