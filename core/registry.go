package core

import (
	"fmt"
	"sync"
)

// Declaration is a limit as it is announced to a store.
type Declaration struct {
	Rule  Rule
	Keys  string // what the limit's key functions read, such as "ip"
	Named bool   // the name was given on purpose
}

// Registry remembers the limits of one store. Its zero value is ready to use,
// and safe for concurrent use.
type Registry struct {
	mu    sync.Mutex
	known map[uint32]Declaration // by Rule.ID. Guarded by mu.
}

// Register adds declarations, all or none. A name that is taken is an error
// unless both limits are equal and were named on purpose: then they share their
// buckets, which is how two routes spend one quota.
func (r *Registry) Register(declarations ...Declaration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range declarations {
		if other, taken := r.known[d.Rule.id]; taken {
			if err := conflict(other, d); err != nil {
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
