package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Declaration is a limit as a limiter declares it to a store.
type Declaration struct {
	Rule  Rule
	Keys  string // what the limit's key functions read, such as "ip"
	Named bool   // the application has chosen the name

	// Shadow is set if the limit is judged and not enforced. Of limiters that share a limit,
	// the one that was made last says so.
	Shadow bool
}

// Registry is what the limiters on one store share, however the store is wrapped: the names
// of its limits, its health, and what limiters attach to it. Its zero value is ready to
// use. It is safe for concurrent use. A store embeds a [Base] to have one; a wrapper
// returns the Registry of the store inside.
type Registry struct {
	mu        sync.Mutex
	known     map[uint32]Declaration    // by Rule.ID. Guarded by mu.
	attached  map[any]any               // Guarded by mu.
	inspector Inspector                 // Guarded by mu.
	inProcess bool                      // Guarded by mu.
	restorer  Restorer                  // Guarded by mu.
	listeners []func(Declaration) error // of OnRegister. Guarded by mu.
	buckets   func() int                // Guarded by mu.
	health    health
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
// node, and lost settlements, are reported at most every 10 seconds, with their number. f runs within a request, possibly several times at
// once, and must not wait. While no function is set, slog.Default() logs the events.
func (r *Registry) OnEvent(f func(Event)) { r.health.listen(f) }

// Watch is OnEvent for observers, who measure: events that only watchers hear of are still
// logged.
func (r *Registry) Watch(f func(Event)) { r.health.watch(f) }

// Report reports an event, for stores that have breakers.
func (r *Registry) Report(e Event) { r.health.emit(e) }

// Failed records that the store did not answer a check. Limiters call it; a store need not.
func (r *Registry) Failed(err error) { r.health.failed(err) }

// Answered records that the store decided. Limiters call it; a store need not.
func (r *Registry) Answered() { r.health.answered() }

// Lost records n settlements that are not tried again, and why. Limiters call it; a store
// need not.
func (r *Registry) Lost(n int64, err error) { r.health.lose(n, err) }

// Attach returns the value that is attached to the store under key. If there is none yet,
// it attaches what newValue returns. Limiters attach the memory store that replaces this
// one in an outage, so that they share it: otherwise each would grant a limit that they
// share. Keys are of unexported types, like those of a context. newValue must not call the
// Registry.
func (r *Registry) Attach(key any, newValue func() any) any {
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

// Inspector checks the configuration of a store's server. If it finds a problem, it returns
// the code of an advice that core documents, and the problem in words; otherwise two empty
// strings. Its error means that it could not check.
type Inspector func(ctx context.Context) (advice, problem string, err error)

// AdviceEviction is the code of the advice for a server that may evict keys.
const AdviceEviction = "WL005"

// SetInspector sets a function that limiters call once, in the background, after the store
// has answered for the first time. A store calls SetInspector when it is made.
func (r *Registry) SetInspector(f Inspector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inspector = f
}

// SetInProcess records that the store counts for this process alone, so that n processes
// allow n times its limits. Adapters then refuse to run in a server that starts further
// processes, such as Fiber's Prefork. A store in memory calls it when it is made; a store
// that processes share does not.
func (r *Registry) SetInProcess() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inProcess = true
}

// InProcess reports whether the store counts for this process alone.
func (r *Registry) InProcess() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inProcess
}

// SetBuckets sets a function that returns how many buckets the store holds in this process,
// for metrics. A store in memory calls SetBuckets when it is made.
func (r *Registry) SetBuckets(f func() int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buckets = f
}

// Buckets returns how many buckets the store holds in this process. It is 0 for a store that
// holds none here, or does not say.
func (r *Registry) Buckets() int {
	r.mu.Lock()
	f := r.buckets
	r.mu.Unlock()
	if f == nil {
		return 0
	}
	return f()
}

// Out reports whether the store is out: it did not answer, and has not made all decisions for
// a second since. Only decisions tell, so it stays true while none is asked for.
func (r *Registry) Out() bool { return r.health.out.Load() }

// Inspector returns the function that SetInspector set, or nil.
func (r *Registry) Inspector() Inspector {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inspector
}

// SetRestorer sets what [RestorerOf] returns for wrappers of the store. A store that is a Restorer
// calls it when it is made.
func (r *Registry) SetRestorer(restorer Restorer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restorer = restorer
}

func (r *Registry) restorerSet() Restorer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restorer
}

// OnRegister calls f for each limit that limiters have declared or will declare. An error of f
// refuses the limiter, and OnRegister returns the errors about limiters that exist. f must not
// call the Registry. It may be told of a limit more than once, and of one that is then refused for
// another reason. It is for wrappers that can't serve all limits.
func (r *Registry) OnRegister(f func(Declaration) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners = append(r.listeners, f)
	var errs []error
	for _, d := range r.sorted() {
		errs = append(errs, f(d))
	}
	return errors.Join(errs...)
}

// Register adds the declarations of a limiter, all or none. It fails if a name is taken,
// unless both limits are equal and both were named by the application: then they share
// their buckets, which is how two routes spend one quota. It also fails for a name whose
// ID is that of another, for a [Ledger] window, which only a book can use, and if a function of
// OnRegister refuses a declaration.
func (r *Registry) Register(declarations ...Declaration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, d := range declarations {
		if d.Rule.id == ReservedID || d.Rule.PenaltyID() == ReservedID {
			return fmt.Errorf("weblimit: limit %q: stores keep records of their own under this name's number; rename it", d.Rule.Name)
		}
		if d.Rule.Algorithm == Ledger {
			return fmt.Errorf("weblimit: limit %q: a limiter can't use a ledger: give it the calendar limit, and the store of the book that keeps it", d.Rule.Name)
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
	for _, d := range declarations {
		for _, f := range r.listeners {
			if err := f(d); err != nil {
				return err
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

// Declarations returns the limits of all limiters on the store, in the order of their names. It
// is for admin pages and commands.
func (r *Registry) Declarations() []Declaration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sorted()
}

// sorted returns the declarations by name. The caller holds r.mu.
func (r *Registry) sorted() []Declaration {
	return slices.SortedFunc(maps.Values(r.known), func(a, b Declaration) int {
		return cmp.Compare(a.Rule.Name, b.Rule.Name)
	})
}

func conflict(a, b Declaration) error {
	switch {
	case a.Rule.Name != b.Rule.Name:
		return fmt.Errorf("weblimit: limit %q: the store can't tell this name from %q; rename one", b.Rule.Name, a.Rule.Name)
	case a.Rule != b.Rule || a.Keys != b.Keys:
		return fmt.Errorf("weblimit: limit %q: the store has a different limit of this name: %s; give each its own with Named", b.Rule.Name, differences(a, b))
	case !a.Named || !b.Named:
		return fmt.Errorf("weblimit: limit %q: declared twice on one store; give each its own name with Named, or both the same one to share a quota", b.Rule.Name)
	}
	return nil
}

// inWords returns the penalty for errors.
func (b Block) inWords() string {
	if b == (Block{}) {
		return "none"
	}
	return fmt.Sprintf("(after %d within %v for %v, factor %d, max %v)", b.After, b.Within, b.For, b.Factor, b.Max)
}

// inWords returns the period for errors.
func (k Period) inWords() string {
	switch k.Unit {
	case CalendarDay:
		return "days in " + k.Location.String()
	case CalendarMonth:
		return fmt.Sprintf("months from day %d in %v", k.Day, k.Location)
	}
	return "none"
}

// differences says what differs in two declarations, and how: first the one that the store has.
func differences(a, b Declaration) string {
	var all []string
	for _, field := range []struct {
		name string
		a, b any
	}{
		{"algorithm", a.Rule.Algorithm, b.Rule.Algorithm},
		{"quota", a.Rule.Quota, b.Rule.Quota},
		{"window", a.Rule.Window, b.Rule.Window},
		{"burst", a.Rule.Burst, b.Rule.Burst},
		{"capacity", a.Rule.Whole, b.Rule.Whole},
		{"soft", a.Rule.Soft, b.Rule.Soft},
		{"jitter", a.Rule.Jitter, b.Rule.Jitter},
		{"wait", a.Rule.Wait, b.Rule.Wait},
		{"once per", a.Rule.Once, b.Rule.Once},
		{"repeats", a.Rule.Repeats, b.Rule.Repeats},
		{"penalty", a.Rule.Block.inWords(), b.Rule.Block.inWords()},
		{"calendar", a.Rule.Calendar.inWords(), b.Rule.Calendar.inWords()},
		{"key", a.Keys, b.Keys},
	} {
		switch {
		case field.a == field.b:
		case field.name == "capacity" && a.Rule.Whole == a.Rule.Burst && b.Rule.Whole == b.Rule.Burst:
		case field.name == "burst" && a.Rule.Burst == a.Rule.Quota && b.Rule.Burst == b.Rule.Quota: // as the quota does
		default:
			all = append(all, fmt.Sprintf("%s %v and %v", field.name, field.a, field.b))
		}
	}
	return strings.Join(all, ", ")
}
