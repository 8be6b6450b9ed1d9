package counting

import "github.com/weblimit/weblimit/core/store"

// Mark is what a store keeps for an operation that was charged: see [store.Check].Once. The zero
// Mark is that of an operation that was not. Times are microseconds since the epoch.
type Mark struct {
	At      int64 // when it was charged
	Expires int64 // when the mark means nothing any more
	Repeats int64 // free repeats since
}

// open prepares the stored mark of a rule's operation to be read at now. If the clock was set back
// since, the mark counts no longer than that of an operation which is charged now.
func (m *Mark) open(r *store.Rule, now int64) {
	if m.At > now {
		m.Expires = min(m.Expires, now+r.Once.Microseconds())
	}
}
