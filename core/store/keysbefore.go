package store

import "slices"

const (
	// maxKeysBefore is how many former kinds of keys are remembered of one limit.
	maxKeysBefore = 4

	// maxChangedLimits bounds the limits of which they are remembered.
	maxChangedLimits = 4096
)

// KeysBefore returns what the keys of a limit were made of before, in this process, the last ones at the
// end: as Declaration.Keys, such as "ip" for a limit that counts by user since a policy file changed. The
// store may still have buckets and blocks under such keys, which no request asks for.
func (r *Registry) KeysBefore(name string) []string {
	r = r.Root()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.before[nameID(name)])
}

// rekey notes that a limit is declared with other keys than before, or is none any more. r.mu is held.
func (r *Registry) rekey(id uint64, from, to string) {
	before := slices.DeleteFunc(r.before[id], func(keys string) bool { return keys == from || keys == to })
	if from != "" && from != to {
		if before = append(before, from); len(before) > maxKeysBefore {
			before = slices.Delete(before, 0, 1)
		}
	}
	if len(before) == 0 {
		delete(r.before, id)
		return
	}
	if r.before == nil || len(r.before) >= maxChangedLimits && r.before[id] == nil {
		r.before = make(map[uint64][]string)
	}
	r.before[id] = before
}
