package regions

import "github.com/weblimit/weblimit/core/store"

// Usually has limits that no limiter has declared decided in a mode.
func Usually(s *Store, mode store.RegionMode) { s.usual.Mode = mode }
