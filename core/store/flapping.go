package store

import (
	"time"
	"weak"
)

// fewChanges is how many changes of one state are told one by one within errorEvery. Further ones are summed up: where a
// Redis is full, and has room for a moment when keys expire, a breaker opens and closes several times a second.
const fewChanges = 4

// healthState is what changes to and fro: a node's breaker, or whether the store is out.
type healthState struct {
	outage bool
	node   string
}

// stateOf returns the state whose change an event reports.
func stateOf(e *Event) (s healthState, changes bool) {
	switch e.Kind {
	case EventBreakerOpened, EventBreakerClosed:
		return healthState{node: e.Node}, true
	case EventOutageBegan, EventOutageEnded:
		return healthState{outage: true}, true
	}
	return healthState{}, false
}

// changes are those of a state that changed a moment ago. All is guarded by health.mu.
type changes struct {
	told    int   // one by one
	leftOut int64 // since the last that was told
	last    Event // of those
}

// paced reports whether to tell an event now. If not, a timer tells it, unless another change of the state follows
// until then. A state that has not changed for errorEvery is told at once again.
func (h *health) paced(e *Event) bool {
	s, ok := stateOf(e)
	if !ok {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.changes[s]
	if c == nil {
		if h.changes == nil {
			h.changes = make(map[healthState]*changes)
		}
		c = new(changes)
		h.changes[s] = c
		h.sumUpLater(s)
	}
	if c.told < fewChanges {
		c.told++
		return true
	}
	c.leftOut++
	c.last = *e
	return false
}

// sumUpLater has a timer sum up changes. It holds the store weakly: one that nobody uses any more is garbage.
func (h *health) sumUpLater(s healthState) {
	held := weak.Make(h)
	time.AfterFunc(errorEvery, func() {
		if h := held.Value(); h != nil {
			h.sumUp(s)
		}
	})
}

// sumUp tells the last change of a state that was left out, if there is one.
func (h *health) sumUp(s healthState) {
	h.mu.Lock()
	c := h.changes[s]
	if c.leftOut == 0 {
		delete(h.changes, s)
		h.mu.Unlock()
		return
	}
	e := c.last
	e.Omitted = c.leftOut - 1
	*c = changes{told: fewChanges}
	h.sumUpLater(s)
	h.mu.Unlock()
	h.hear(e, true)
}
