package prefetch

import (
	"testing"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// A slice answers by arithmetic of its own. For an algorithm whose arithmetic it does not
// have, it would let through what the store denies: the store decides such a limit.
func TestTheStoreDecidesAlgorithmsThatSlicesDoNotKnow(t *testing.T) {
	t.Parallel()
	known := map[store.Algorithm]bool{store.TokenBucket: true, store.FixedWindow: true, store.SlidingWindow: true}
	for algorithm := range counting.LastAlgorithm + 8 { // algorithms to come, too
		rule := store.Rule{Numbers: store.Numbers{Algorithm: algorithm}}
		if got := prefetchable(&store.Check{Rule: &rule, Cost: 1}); got != known[algorithm] {
			t.Errorf("algorithm %d, %v: prefetched %v, want %v", algorithm, algorithm, got, known[algorithm])
		}
	}
}
