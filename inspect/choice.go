package inspect

import (
	"slices"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/pageapi"
)

// choose corrects what each limit of a choice says by itself: one that has no room denies nothing while another one pays.
// Alternatives by another kind of key are not looked up, since nobody can say which of their keys a request has.
func choose(k *pageapi.Key, declarations []store.Declaration) {
	for i := range declarations {
		d := &declarations[i]
		at := slices.IndexFunc(k.Limits, func(s pageapi.State) bool { return s.Limit == d.Rule.Name })
		if len(d.Choice) == 0 || at < 0 || k.Limits[at].State != "denied" {
			continue
		}
		state, elsewhere := &k.Limits[at], ""
		for _, name := range d.Choice {
			if other := slices.IndexFunc(declarations, func(o store.Declaration) bool { return o.Rule.Name == name }); name == d.Rule.Name || other < 0 {
				continue
			} else if declarations[other].Keys != d.Keys {
				elsewhere = name
				continue
			}
			if pays(k, name) {
				state.State, state.Why = "allowed", state.Why+" Until then "+name+" pays."
				break
			}
		}
		if state.State == "denied" && elsewhere != "" {
			state.State, state.Why = "allowed", state.Why+" Until then "+elsewhere+" may pay, which counts by another key."
		}
	}
}

// pays reports whether a limit has room for the key.
func pays(k *pageapi.Key, limit string) bool {
	i := slices.IndexFunc(k.Limits, func(s pageapi.State) bool { return s.Limit == limit })
	return slices.Contains(k.Unused, limit) || i >= 0 && (k.Limits[i].State == "allowed" || k.Limits[i].State == "near")
}
