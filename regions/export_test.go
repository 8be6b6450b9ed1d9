package regions

import "github.com/weblimit/weblimit/core/store"

// Usually has limits that say nothing decided in a mode. Before the store is used.
func Usually(s *Store, mode store.RegionMode) { s.usual.Mode = mode }
