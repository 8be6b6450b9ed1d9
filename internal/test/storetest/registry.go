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
		s := of.Registry().Server()
		if s.InProcess && (s.Buckets == nil || s.Buckets() != 1) {
			t.Error("after a charge the store does not have one bucket by its registry: one in memory sets Buckets by SetServer")
		}
		if shared := s.Swap != nil; s.InProcess == shared {
			t.Errorf("InProcess is %v and Swap is set: %v. A store that counts for its process alone sets InProcess by SetServer of its registry, "+
				"so that servers of several processes refuse it. Another one sets Swap, so that processes hear of limits with other numbers",
				s.InProcess, shared)
		}
	})
}
