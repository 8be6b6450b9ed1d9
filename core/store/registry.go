package store

import (
	"errors"
	"sync"
)

// Registry is what the limiters on one store share, however the store is wrapped: the names
// of its limits, its health, and what limiters attach to it. Its zero value is ready to
// use. It is safe for concurrent use. A store embeds a [Base] to have one; a wrapper
// returns the Registry of the store inside.
type Registry struct {
	root *Registry // of a view: whose it is. It has all that is below then. Does not change.

	regions bool // limits count over several regions. Does not change.

	mu        sync.Mutex
	known     map[uint64]declared       // by Rule.ID. Guarded by mu.
	before    map[uint64][]string       // former Declaration.Keys, by Rule.ID; see KeysBefore. Guarded by mu.
	attached  map[any]any               // Guarded by mu.
	server    Server                    // Guarded by mu.
	listeners []func(Declaration) error // of OnRegister. Guarded by mu.
	health    health
}

// View returns a Registry that is r, for a wrapper whose limits have to be told from those that
// limiters declare on the store in it: Declaration.On is the view then. A wrapper that returns
// the Registry of the store inside is on the view as well.
func (r *Registry) View() *Registry { return &Registry{root: r.Root(), regions: r.regions} }

// RegionsView is View for a wrapper on which limits count over several regions: see [Declaration].Regions.
func (r *Registry) RegionsView() *Registry { return &Registry{root: r.Root(), regions: true} }

// InRegions reports whether limits that are declared on r count over several regions.
func (r *Registry) InRegions() bool { return r.regions }

// Root returns the Registry of the store itself: two stores share what limiters attach to them if
// their roots are the same. It is r, but for a [Registry.View].
func (r *Registry) Root() *Registry {
	if r.root != nil {
		return r.root
	}
	return r
}

// Base provides a store's [Registry]: embed it. Its zero value is ready to use, and it must
// not be copied.
type Base struct{ registry Registry }

// Registry implements [Store].
func (b *Base) Registry() *Registry { return &b.registry }

// OnEvent calls f for each event of the store's health: see [Registry.OnEvent].
func (b *Base) OnEvent(f func(Event)) { b.registry.OnEvent(f) }

// OnEvent calls f for each event of the store's health: errors by class, breakers that open
// and close, outages that begin and end, settlements that are lost. Errors of one class and
// node, and lost settlements, are reported at most every 10 seconds, with their number. So is the last change of
// a breaker, or of outages, after more than four within 10 seconds. f runs within a request or on a timer, possibly several
// times at once, and must not wait. While no function is set, slog.Default() logs the events.
func (r *Registry) OnEvent(f func(Event)) { r.Root().health.listen(f) }

// Watch is OnEvent for observers, who measure: they are told of each change at once, and events that only
// watchers hear of are still logged.
func (r *Registry) Watch(f func(Event)) { r.Root().health.watch(f) }

// Report reports an event, for stores that have breakers.
func (r *Registry) Report(e Event) { r.Root().health.emit(e) }

// Failed records that the store did not answer a check. Limiters call it; a store need not.
func (r *Registry) Failed(err error) { r.Root().health.failed(err) }

// Answered records that the store decided. Limiters call it; a store need not.
func (r *Registry) Answered() { r.Root().health.answered() }

// Lost records n settlements that are not tried again, and why. Limiters call it; a store
// need not.
func (r *Registry) Lost(n int64, err error) { r.Root().health.lose(n, err) }

// Attach returns the value that is attached to the store under key. If there is none yet,
// it attaches what newValue returns. Limiters attach the memory store that replaces this
// one in an outage, so that they share it: otherwise each would grant a limit that they
// share. Keys are of unexported types, like those of a context. newValue must not call the
// Registry.
func (r *Registry) Attach(key any, newValue func() any) any {
	r = r.Root()
	r.mu.Lock()
	defer r.mu.Unlock()
	if value, ok := r.attached[key]; ok {
		return value
	}
	if r.attached == nil {
		r.attached = make(map[any]any)
	}
	value := newValue()
	r.attached[key] = value
	return value
}

// Out reports whether the store is out: it did not answer, and has not made all decisions for
// a second since. Only decisions tell, so it stays true while none is asked for.
func (r *Registry) Out() bool { return r.Root().health.out.Load() }

// OnRegister calls f for each limit that limiters have declared or will declare, on whichever
// view. An error of f refuses the limiter, and OnRegister returns the errors about limiters that
// exist. f must not call the Registry. It may be told of a limit more than once, and of one that is then refused for
// another reason. It is for wrappers that can't serve all limits.
func (r *Registry) OnRegister(f func(Declaration) error) error {
	r = r.Root()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, f)
	var errs []error
	for _, d := range r.sorted() {
		errs = append(errs, f(d))
	}
	return errors.Join(errs...)
}
