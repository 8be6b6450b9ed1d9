package top

// tick is a time in tenths of a second since the epoch. It counts a thousand times longer
// than needed.
type tick int64

const (
	ticksPerSecond = 10
	minute         = 60 * ticksPerSecond
	hour           = 60 * minute
)

// outcome is what a limit said to a request.
type outcome uint8

const (
	allowed outcome = iota
	denied
	wouldDeny
	outcomes
)

// window counts decisions of the last minute, or hour: a sliding window of two counters, which
// takes the requests of the former window as evenly spread.
type window struct {
	index  uint32 // of the window that now counts
	now    [outcomes]uint32
	before [outcomes]uint32
}

// roll moves the window to a time. It returns by how many windows. A clock that was set back
// by a little moves nothing. If it was set back by more, counting begins anew: what was counted
// would stay in the future.
func (w *window) roll(now tick, length tick) (by uint32) {
	index := uint32(now / length)
	switch {
	case index > w.index:
		by = index - w.index
	case index+1 < w.index:
		by = w.index - index
	default:
		return 0
	}
	w.before = w.now
	if by > 1 {
		w.before = [outcomes]uint32{}
	}
	w.index, w.now = index, [outcomes]uint32{}
	return by
}

// recent returns the denials of this window and the last.
func (w *window) recent() int64 {
	return int64(w.now[denied]) + int64(w.now[wouldDeny]) + int64(w.before[denied]) + int64(w.before[wouldDeny])
}

// counts returns what was counted in the time of one window up to now. w is rolled.
func (w *window) counts(now tick, length tick) Counts {
	left := int64(length - now%length)
	at := func(kind outcome) int64 {
		return int64(w.now[kind]) + (int64(w.before[kind])*left+int64(length)/2)/int64(length)
	}
	c := Counts{Denied: at(denied), WouldDeny: at(wouldDeny)}
	c.Requests = at(allowed) + c.Denied + c.WouldDeny
	return c
}
