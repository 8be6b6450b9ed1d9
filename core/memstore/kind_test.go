package memstore

import (
	"testing"

	"github.com/weblimit/weblimit/core/store/counting"
)

// A kind has room for each algorithm and record, with each tick, and is never that of a
// free slot.
func TestAKindReadsBack(t *testing.T) {
	t.Parallel()
	all := append(counting.Algorithms(), counting.PenaltyRecord, counting.MarkRecord, counting.ManualRecord, counting.ShareRecord)
	if len(all) != int(counting.LastAlgorithm) {
		t.Errorf("%d algorithms and records, and the last has number %d", len(all), counting.LastAlgorithm)
	}
	for _, a := range all {
		for _, tick := range ticks {
			for _, burst := range []int64{1, 2, 1000, 1<<31 - 1, 1 << 50} {
				k := newKind(&counting.Form{Algorithm: a, Tick: tick}, burst)
				if k == 0 || k.algorithm() != a || k.tick() != tick || k.burst() != roughly(burst) {
					t.Errorf("algorithm %d, tick %d, burst %d reads back as %d, %d, %v", a, tick, burst, k.algorithm(), k.tick(), k.burst())
				}
			}
		}
	}
}
