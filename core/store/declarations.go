package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Declaration is a limit as a limiter declares it to a store.
type Declaration struct {
	Rule  Rule
	Keys  string // what the limit's key functions read, such as "ip": see keyfuncs.Func.Kind
	Named bool   // the application has chosen the name

	// Shadow is set if the limit is judged and not enforced. Of limiters that share a limit,
	// the one that was made last says so.
	Shadow bool

	// Choice has the names of the limit and its alternatives, in order, if it has some (see Check.Or). Of limiters that
	// share a limit, the one that was made last says so.
	Choice []string

	// Regions says how the limit counts on a store of several regions.
	Regions Regions

	// Conceal is keyfuncs.Func.Conceal of the limit's key if that is hashed under a secret, and nil
	// otherwise, or where the secret is not known.
	Conceal func(key string) (concealed string, ok bool)

	// On is the Registry that the limiter has declared it on: that of the store, or a
	// [Registry.View] of a wrapper. Of limiters that share a limit, the one that was made last says
	// so. Register and Replace set it.
	On *Registry
}

// declared is a declaration, and how many limiters have declared it.
type declared struct {
	Declaration
	limiters int
}

// Register adds the declarations of a limiter, all or none. It fails if a name is taken,
// unless both limits are equal and both were named by the application: then they share
// their buckets, which is how two routes spend one quota. It also fails for a name whose
// ID is that of another, for a [Ledger] window, which only a book can use, and if a function of
// OnRegister refuses a declaration.
func (r *Registry) Register(declarations ...Declaration) error { return r.Replace(nil, declarations) }

// Replace adds the declarations of limiters as Register does, and takes back those that limiters
// which they replace have added: all of it, or nothing if there is an error. A limit that is
// taken back does not stand in the way of a new one of its name. One that other limiters have
// declared, too, stays, and the new one must be equal to it.
func (r *Registry) Replace(old, declarations []Declaration) error {
	on := r
	r = r.Root()
	declarations = slices.Clone(declarations)
	for i := range declarations {
		declarations[i].On = on
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	less := make(map[uint64]int, len(old))
	for i := range old {
		less[old[i].Rule.id]++
	}
	added := make(map[uint64]int, len(declarations)) // by Rule.ID, the place of the last one
	for i := range declarations {
		d := &declarations[i]
		if d.Rule.Algorithm == Ledger {
			return AtLimit(d.Rule.Name, errors.New("a limiter can't use a ledger: give it the calendar limit, and the store of the book that keeps it"))
		}
		if d.Regions != (Regions{}) && !on.InRegions() {
			return AtLimit(d.Rule.Name, errors.New("Regions and Overdraft are for a store of several regions, and this one is not: see package regions"))
		}
		if other, ok := added[d.Rule.id]; ok {
			if err := conflict(&declarations[other], d); err != nil {
				return err
			}
		}
		if other, ok := r.known[d.Rule.id]; ok && other.limiters > less[d.Rule.id] {
			if err := conflict(&other.Declaration, d); err != nil {
				return err
			}
		}
		added[d.Rule.id] = i
	}
	for i := range declarations {
		for _, f := range r.listeners {
			if err := f(declarations[i]); err != nil {
				return err
			}
		}
	}
	r.change(less, declarations)
	return nil
}

// change takes declarations back, by how many limiters, and adds others. r.mu is held.
func (r *Registry) change(less map[uint64]int, more []Declaration) {
	if r.known == nil {
		r.known = make(map[uint64]declared)
	}
	was := make(map[uint64]string, len(less)+len(more)) // what their keys were made of
	for id, n := range less {
		was[id] = r.known[id].Keys
		switch d, ok := r.known[id]; {
		case !ok:
		case d.limiters <= n:
			delete(r.known, id)
		default:
			d.limiters -= n
			r.known[id] = d
		}
	}
	for i := range more {
		id := more[i].Rule.id
		if _, replaced := was[id]; !replaced {
			was[id] = r.known[id].Keys
		}
		r.known[id] = declared{more[i], r.known[id].limiters + 1}
	}
	for id, keys := range was {
		r.rekey(id, keys, r.known[id].Keys)
	}
}

// Declarations returns the limits of all limiters on the store, in the order of their names. It
// is for admin pages and commands.
func (r *Registry) Declarations() []Declaration {
	r = r.Root()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sorted()
}

// Declared returns the declaration of the limit of that name, if there is one.
func (r *Registry) Declared(name string) (Declaration, bool) {
	r = r.Root()
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.known[nameID(name)]
	return d.Declaration, ok && d.Rule.Name == name
}

// sorted returns the declarations by name. The caller holds r.mu.
func (r *Registry) sorted() []Declaration {
	all := make([]Declaration, 0, len(r.known))
	for _, d := range r.known {
		all = append(all, d.Declaration)
	}
	slices.SortFunc(all, func(a, b Declaration) int { return cmp.Compare(a.Rule.Name, b.Rule.Name) })
	return all
}

func conflict(a, b *Declaration) error {
	switch {
	case a.Rule.Name != b.Rule.Name:
		return AtLimit(b.Rule.Name, fmt.Errorf("the store can't tell this name from %q; rename one", a.Rule.Name))
	case a.Rule != b.Rule || a.Keys != b.Keys || a.Regions != b.Regions:
		return AtLimit(b.Rule.Name, fmt.Errorf("the store has a different limit of this name: %s; give each its own with Named", differences(a, b)))
	case !a.Named || !b.Named:
		return AtLimit(b.Rule.Name, errors.New("declared twice on one store; give each its own name with Named, or both the same one to share a quota"))
	}
	return nil
}

// debtInWords returns the debt for errors.
func (r *Rule) debtInWords() string {
	if r.HasDebt {
		return strconv.FormatInt(r.Debt, 10)
	}
	return "of one burst"
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

// setting is one of the settings of a declaration that limits of one name must have in common.
type setting struct {
	name  string
	value any
}

func (d *Declaration) settings() []setting {
	return []setting{
		{"algorithm", d.Rule.Algorithm},
		{"quota", d.Rule.Quota},
		{"window", d.Rule.Window},
		{"burst", d.Rule.Burst},
		{"capacity", d.Rule.Whole},
		{"debt", d.Rule.debtInWords()},
		{"soft", d.Rule.Soft},
		{"jitter", d.Rule.Jitter},
		{"from first use", d.Rule.FromUse},
		{"wait", d.Rule.Wait},
		{"once per", d.Rule.Once},
		{"repeats", d.Rule.Repeats},
		{"penalty", d.Rule.Block.inWords()},
		{"calendar", d.Rule.Calendar.inWords()},
		{"regions", d.Regions.inWords()},
		{"key", d.Keys},
	}
}

// says reports whether a setting says more than those before it.
func (d *Declaration) says(s setting) bool {
	switch s.name {
	case "burst":
		return d.Rule.Burst != d.Rule.Quota
	case "capacity":
		return d.Rule.Whole != d.Rule.Burst
	case "debt":
		return d.Rule.HasDebt
	}
	return true
}

// differences says what differs in two declarations, and how: first the one that the store has.
func differences(a, b *Declaration) string {
	var all []string
	others := b.settings()
	for i, s := range a.settings() {
		if other := others[i]; s.value != other.value && (a.says(s) || b.says(other)) {
			all = append(all, fmt.Sprintf("%s %v and %v", s.name, s.value, other.value))
		}
	}
	return strings.Join(all, ", ")
}

// InWords returns the settings by which the limit counts, such as "token bucket, quota 100, window
// 1m0s", without its name and key.
func (d *Declaration) InWords() string {
	all := []string{d.Rule.Algorithm.String()}
	for _, s := range d.settings()[1:] {
		switch s.value {
		case int64(0), time.Duration(0), false, "none":
			continue
		}
		if s.name != "key" && d.says(s) {
			all = append(all, fmt.Sprintf("%s %v", s.name, s.value))
		}
	}
	return strings.Join(all, ", ")
}
