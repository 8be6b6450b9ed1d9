//go:build moving

package store

import (
	"fmt"
	"sync"
	"time"
)

// Declaration is a limit as it is announced to a store.
type Declaration struct {
	Rule  Rule
	Keys  string // what the limit's key functions read, such as "ip"
	Named bool   // the name was given on purpose
}

// Registry is what all limiters on one store share: the names of its limits, how
// it fares, and what stands in for it. Its zero value is ready to use, and safe
// for concurrent use. A store embeds one.
type Registry struct {
	mu      sync.Mutex
	known   map[uint32]Declaration // by Rule.ID. Guarded by mu.
	instead *standIn               // Guarded by mu.
}

// standIn is what decides during a store's outage, and what settles afterwards: one for all its limiters, or
// a limit that several of them share would be granted by each.
type standIn struct {
	health
	settler settler
	memory  *Memory

	// carrying is held while a client's use is taken from memory, so that two
	// requests don't take the same.
	carrying sync.Mutex
}

func newStandIn() *standIn {
	return &standIn{health: health{start: time.Now()}, memory: NewMemory()}
}

func (r *Registry) standIn() *standIn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.instead == nil {
		r.instead = newStandIn()
	}
	return r.instead
}

// OnEvent has f told how the store fares: errors by class, breakers that open and
// close, outages that begin and end. Errors of one class and node are reported
// at most every 10 seconds, with their number. f runs within a request, maybe
// several at once, and must not block. Events that nobody listens to are logged
// by slog.Default().
func (r *Registry) OnEvent(f func(Event)) { r.standIn().listen(f) }

// Report tells those who listen of an event: for stores that have breakers.
func (r *Registry) Report(e Event) { r.standIn().emit(e) }

// Register adds declarations, all or none. A name that is taken is an error
// unless both limits are equal and were named on purpose: then they share their
// buckets, which is how two routes spend one quota.
func (r *Registry) Register(declarations ...Declaration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, d := range declarations {
		if d.Rule.id == ReservedID || d.Rule.PenaltyID() == ReservedID {
			return fmt.Errorf("weblimit: limit %q: stores keep records of their own under this name's number; rename it", d.Rule.Name)
		}
		others := declarations[:i:i]
		if other, taken := r.known[d.Rule.id]; taken {
			others = append(others, other)
		}
		if other, near := r.known[d.Rule.PenaltyID()]; near {
			others = append(others, other)
		}
		for _, other := range others {
			if other.Rule.id == d.Rule.id || other.Rule.id == d.Rule.PenaltyID() {
				if err := conflict(other, d); err != nil {
					return err
				}
			}
		}
	}
	if r.known == nil {
		r.known = make(map[uint32]Declaration)
	}
	for _, d := range declarations {
		r.known[d.Rule.id] = d
	}
	return nil
}

func conflict(a, b Declaration) error {
	switch {
	case a.Rule.Name != b.Rule.Name:
		return fmt.Errorf("weblimit: limit %q: the store can't tell this name from %q; rename one", b.Rule.Name, a.Rule.Name)
	case a.Rule != b.Rule || a.Keys != b.Keys:
		return fmt.Errorf("weblimit: limit %q: the store has a different limit of this name; give each its own with Named", b.Rule.Name)
	case !a.Named || !b.Named:
		return fmt.Errorf("weblimit: limit %q: declared twice on one store; give each its own name with Named, or both the same one to share a quota", b.Rule.Name)
	}
	return nil
}
