package counting

import "github.com/weblimit/weblimit/core/store"

// Restore tells what accounts have used, and sets the results, as [Restorer] does. now is in
// microseconds since the epoch; states[i] is the state of checks[i]. It does not read penalties
// and marks.
func Restore(now int64, checks []store.Check, from []Restoration, states []State, results []store.Result) {
	for i := range states {
		c, s := &checks[i], &states[i]
		s.unchanged()
		s.open(c, now)
		s.changed(c, now, s.restore(&from[i]), &results[i])
	}
}

// restore begins a generation of an opened bucket, and reports whether it has.
func (s *State) restore(from *Restoration) bool {
	b, position := &s.Bucket, max(s.Bucket.Y, s.stale)
	switch {
	case b.Expires != from.Ends || s.History != from.History || Generation(position) != from.Expect:
		return false
	case from.Position > 0 && position != from.Position || s.stale > 0 && from.Position == 0:
		return false
	case from.Position == 0:
		b.X = max(b.X, from.Used)
	default:
		b.X = from.Used
	}
	b.Y, b.History = from.Generation<<changeBits|1, s.History
	return true
}
