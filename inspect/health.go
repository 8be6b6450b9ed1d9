package inspect

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/pageapi"
)

const (
	maxNodes  = 256 // servers whose state is kept
	maxEvents = 32  // last events that are kept

	kindSlow = "slow" // of the event that stands for all that were slow
)

// health is what the store's events say.
type health struct {
	since time.Time // from when on events are heard

	mu     sync.Mutex
	outage *pageapi.Outage          // nil if there is none. Guarded by mu.
	ended  pageapi.Ended            // outages. Guarded by mu.
	slow   pageapi.Slow             // Guarded by mu.
	ledger *pageapi.Outage          // of the ledger of a quota.Book; nil if there is none. Guarded by mu.
	nodes  map[string]*pageapi.Node // by address. Guarded by mu.
	events []pageapi.Event          // oldest first. Guarded by mu.
}

// The kinds of events of a quota.Book that change what the page shows. This module does not import it; a test in
// internal/test/documents compares them.
const (
	ledgerOut  store.EventKind = "ledger out"
	ledgerBack store.EventKind = "ledger back"
)

// note keeps an event. It is called within requests, so it only takes notes. An error's text stays out:
// it can hold what a client sent.
func (h *health) note(e core.Event) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == maxEvents {
		h.events = slices.Delete(h.events, 0, 1)
	}
	h.events = append(h.events, pageapi.Event{
		At: now, Kind: string(e.Kind), Class: string(e.Class), Node: e.Node, Count: e.Count, DurationMS: e.Duration.Milliseconds(),
	})
	switch e.Kind {
	case store.EventOutageBegan:
		h.outage = &pageapi.Outage{Since: now, Class: string(e.Class), Node: e.Node}
	case store.EventOutageEnded:
		h.end(&e, now)
	case ledgerOut:
		h.ledger = &pageapi.Outage{Since: now, Class: string(e.Class)}
	case ledgerBack:
		h.ledger = nil
	case store.EventStoreError, store.EventBreakerOpened, store.EventBreakerClosed:
	default:
		return // the node is none: it names a channel or an export
	}
	node := h.node(e.Node, now)
	if node == nil {
		return
	}
	switch e.Kind {
	case store.EventStoreError:
		node.Errors += e.Count
		node.Class, node.LastErrorAt = string(e.Class), now
	case store.EventBreakerOpened:
		node.Breaker, node.Since = "open", now
		node.Class, node.LastErrorAt = string(e.Class), now
	case store.EventBreakerClosed:
		node.Breaker, node.Since = "closed", now
	}
}

// end notes that an outage has ended. Its event is the last one. h.mu is held.
func (h *health) end(e *core.Event, now time.Time) {
	h.outage = nil
	if !e.Slow() {
		h.ended.Outages++
		h.ended.LastAt, h.ended.LongestMS = now, max(h.ended.LongestMS, e.Duration.Milliseconds())
		return
	}
	h.slow.Times++
	h.slow.Timeouts += e.Count
	h.slow.LastAt = now
	// One event stands for all of them: the list would show nothing else.
	kept := h.events[:len(h.events)-1]
	for i := len(kept) - 1; i >= 0; i-- {
		began, same := kept[i].Kind == string(store.EventOutageBegan), kept[i].Class == string(store.ClassTimeout)
		if began || same && kept[i].Kind == string(store.EventStoreError) {
			kept = slices.Delete(kept, i, i+1)
		}
		if began {
			break
		}
	}
	h.events = slices.DeleteFunc(kept, func(e pageapi.Event) bool { return e.Kind == kindSlow })
	h.events = append(h.events, pageapi.Event{At: now, Kind: kindSlow, Class: string(e.Class), Count: h.slow.Timeouts})
}

// node returns the state of a server, or nil if there is none. h.mu is held.
func (h *health) node(address string, now time.Time) *pageapi.Node {
	if address == "" {
		return nil
	}
	node := h.nodes[address]
	if node == nil {
		if len(h.nodes) == maxNodes {
			return nil
		}
		if h.nodes == nil {
			h.nodes = make(map[string]*pageapi.Node)
		}
		node = &pageapi.Node{Node: address, Breaker: "closed", Since: now}
		h.nodes[address] = node
	}
	return node
}

// now returns the state of the store.
func (h *health) now(server store.Server) pageapi.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := pageapi.Health{State: "ok", Since: h.since, Shared: !server.InProcess, Ended: h.ended, Slow: h.slow, Nodes: []pageapi.Node{}, Events: slices.Clone(h.events)}
	for _, node := range h.nodes {
		state.Nodes = append(state.Nodes, *node)
		if node.Breaker == "open" {
			state.State = "degraded"
		}
	}
	slices.SortFunc(state.Nodes, func(a, b pageapi.Node) int { return cmp.Compare(a.Node, b.Node) })
	slices.Reverse(state.Events)
	if state.Events == nil {
		state.Events = []pageapi.Event{}
	}
	if h.ledger != nil {
		l := *h.ledger
		state.State, state.Ledger = "degraded", &l
	}
	if h.outage != nil {
		o := *h.outage
		state.State, state.Outage = "outage", &o
	}
	return state
}

func (h *Handler) serveHealth(r *request) *problem {
	return r.answer(h.health.now(h.config.Store.Registry().Server()))
}
