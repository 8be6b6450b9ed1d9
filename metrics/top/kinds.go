package top

import (
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// kinds say what the keys of limits are made of: the command, which has only what instances publish, has to
// know under which keys a limit counts. They are asked for each snapshot, since a policy file can change
// them. Its zero value is ready to use.
type kinds struct {
	mu     sync.Mutex
	stores []weak.Pointer[store.Registry] // in which limits are declared. Guarded by mu.
}

// mostStores bounds the stores of one tracker.
const mostStores = 256

// Attached implements [core.Observer].
func (t *Tracker) Attached(l *core.Limiter) { t.kinds.learn(l) }

// learn notes a limiter's store.
func (k *kinds) learn(l *core.Limiter) {
	held := weak.Make(l.Store().Registry().Root())
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Contains(k.stores, held) {
		return
	}
	k.stores = slices.DeleteFunc(k.stores, func(r weak.Pointer[store.Registry]) bool { return r.Value() == nil })
	if len(k.stores) < mostStores {
		k.stores = append(k.stores, held)
	}
}

// complete adds what the keys of a limit are made of, and were made of before. If no limiter has the limit
// any more, as when a policy file is without it, its numbers are left out: to act on what the store has of
// it would have no effect.
func (k *kinds) complete(l *Limit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := false
	for _, held := range k.stores {
		registry := held.Value()
		if registry == nil {
			continue
		}
		if d, ok := registry.Declared(l.Name); ok {
			if len(d.Keys) <= maxKinds {
				l.Keys, l.KeysBefore = d.Keys, bounded(registry.KeysBefore(l.Name))
			}
			return
		}
		known = true
	}
	if known {
		l.Numbers = store.Numbers{}
	}
}

// bounded returns kinds as snapshots can have them.
func bounded(kinds []string) []string {
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return len(kind) > maxKinds })
	return kinds[max(0, len(kinds)-maxBefore):]
}

// mergeKinds returns what the keys of a limit are made of where instances don't agree, as while a new
// version of a policy reaches one after the other: "first(ip,user)".
func mergeKinds(several []*Limit) string {
	var all []string
	for _, l := range several {
		if l.Keys != "" && !slices.Contains(all, l.Keys) {
			all = append(all, l.Keys)
		}
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	for i := range all {
		all[i], _, _ = strings.Cut(all[i], " once per ") // which says nothing of the keys
		all[i], _, _ = strings.Cut(all[i], " divided ")
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for len(all) > 1 && len("first()")+len(strings.Join(all, ",")) > maxKinds {
		all = all[:len(all)-1]
	}
	if len(all) == 1 {
		return all[0]
	}
	return "first(" + strings.Join(all, ",") + ")"
}

// mergeBefore returns what keys of a limit were made of before, on any instance.
func mergeBefore(several []*Limit) (all []string) {
	for _, l := range several {
		for _, kind := range l.KeysBefore {
			if !slices.Contains(all, kind) && len(all) < maxBefore {
				all = append(all, kind)
			}
		}
	}
	return all
}
