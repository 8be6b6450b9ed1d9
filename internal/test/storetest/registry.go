package storetest

import (
	"testing"

	"github.com/weblimit/weblimit/core"
)

// runRegistry checks what only the store knows and limiters ask its registry for. That it is a Restorer, the
// cases of ledgers ask.
func runRegistry(t *testing.T, newStore Factory) {
	t.Run("it says whether processes share it", func(t *testing.T) {
		t.Parallel()
		of := newRig(t, newStore)
		of.take(rule(t, core.PerHour(5)), "k", 1)
		r := of.Registry()
		if n := r.Buckets(); r.InProcess() && n != 1 {
			t.Errorf("after a charge the store has %d buckets by its registry, want 1: one in memory calls SetBuckets", n)
		}
		if shared := r.Swapper() != nil; r.InProcess() == shared {
			t.Errorf("InProcess is %v and a Swapper is set: %v. A store that counts for its process alone calls SetInProcess of its registry, "+
				"so that servers of several processes refuse it. Another one calls SetSwapper, so that processes hear of limits with other numbers",
				r.InProcess(), shared)
		}
	})
}
