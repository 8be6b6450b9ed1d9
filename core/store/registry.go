package store

import (
	"context"
	"fmt"
	"sync"
)

// Declaration is a limit as it is announced to a store.
type Declaration struct {
	Rule  Rule
	Keys  string // what the limit's key functions read, such as "ip"
	Named bool   // the name was given on purpose
}

// Registry is what all limiters on one store share, and what must stay the store's
// own however often it is wrapped: the names of its limits, how it fares, and what
// else limiters keep with a store. Its zero value is ready to use, and safe for
// concurrent use. A store embeds a [Base] to have one; a wrapper passes on its
// store's.
type Registry struct {
	mu        sync.Mutex
	known     map[uint32]Declaration // by Rule.ID. Guarded by mu.
	attached  map[any]any            // Guarded by mu.
	inspector Inspector              // Guarded by mu.
	inProcess bool                   // Guarded by mu.
	health    health
}

// Base is what a store embeds for its [Registry].
type Base struct{ registry Registry }

// Registry implements [Store].
func (b *Base) Registry() *Registry { return &b.registry }

// OnEvent has f told how the store fares: see [Registry.OnEvent].
func (b *Base) OnEvent(f func(Event)) { b.registry.OnEvent(f) }

// OnEvent has f told how the store fares: errors by class, breakers that open and
// close, outages that begin and end. Errors of one class and node are reported
// at most every 10 seconds, with their number. f runs within a request, maybe
// several at once, and must not block. Events that nobody listens to are logged
// by slog.Default().
func (r *Registry) OnEvent(f func(Event)) { r.health.listen(f) }

// Watch is OnEvent for observers, who measure: events that nothing but watchers hear of are
// still logged.
func (r *Registry) Watch(f func(Event)) { r.health.watch(f) }

// Report tells those who listen of an event: for stores that have breakers.
func (r *Registry) Report(e Event) { r.health.emit(e) }

// Failed notes that the store did not answer a check, and Answered that it did.
// Limiters call them; a store need not.
func (r *Registry) Failed(err error) { r.health.failed(err) }

// Answered notes that the store decided.
func (r *Registry) Answered() { r.health.answered() }

// Attach returns what is kept with the store under key, and makes it if there is
// nothing yet. Limiters keep there what stands in for the store in an outage: one
// for all, or a limit that several of them share would be granted by each. Keys are
// as those of a context.
func (r *Registry) Attach(key any, made func() any) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if value, ok := r.attached[key]; ok {
		return value
	}
	if r.attached == nil {
		r.attached = make(map[any]any)
	}
	value := made()
	r.attached[key] = value
	return value
}

// Inspector looks at how a store's server is set up, and returns the problem that it
// finds, if any, as a kind of advice that core documents.
type Inspector func(ctx context.Context) (advice, problem string, err error)

// AdviceEviction is the advice of an Inspector whose server may evict keys.
const AdviceEviction = "WL005"

// SetInspector has limiters inspect the store's server, once and in the background,
// after it has answered for the first time. A store sets it when it is made.
func (r *Registry) SetInspector(f Inspector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inspector = f
}

// SetInProcess says that other processes do not see what the store counts. A store sets
// it when it is made.
func (r *Registry) SetInProcess() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inProcess = true
}

// InProcess reports whether SetInProcess was called.
func (r *Registry) InProcess() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inProcess
}

// Inspector returns what SetInspector set, or nil.
func (r *Registry) Inspector() Inspector {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inspector
}

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
