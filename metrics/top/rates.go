package top

import "time"

const (
	seriesSteps = 120 // of each ring
	secondsStep = ticksPerSecond
	minutesStep = minute
)

// rates are the decisions of a limit by second and by minute. Guarded by the limit's lock.
type rates struct{ seconds, minutes ring }

// ring is counts of the last steps.
type ring struct {
	first int64                            // the step of the first count ever; 0 if there is none
	last  int64                            // the step of the last count
	steps [seriesSteps + 1][outcomes]int64 // by step modulo its length. One more, for the step that has not ended.
}

// add adds counts to the step of a time.
func (r *ring) add(now, step tick, counts [outcomes]int64) {
	r.move(now, step)
	at := &r.steps[r.last%int64(len(r.steps))]
	for i := range counts {
		at[i] += counts[i]
	}
}

// move makes room for the step of a time. A clock that was set back by a little moves nothing; if
// it was set back by more, the ring begins anew.
func (r *ring) move(now, step tick) {
	index := int64(now / step)
	if r.first == 0 || index < r.last-seriesSteps {
		*r = ring{first: index, last: index}
	}
	if index-r.last >= int64(len(r.steps)) {
		r.steps = [seriesSteps + 1][outcomes]int64{}
		r.last = index
	}
	for r.last < index {
		r.last++
		r.steps[r.last%int64(len(r.steps))] = [outcomes]int64{}
	}
}

// series returns the steps that have ended.
func (r *ring) series(step tick) Series {
	s := Series{Step: step.duration()}
	if r.first == 0 {
		return s
	}
	from := max(r.first, r.last-seriesSteps)
	if from == r.last {
		return s
	}
	s.Start = tick(from * int64(step)).time()
	for i := from; i < r.last; i++ {
		c := &r.steps[i%int64(len(r.steps))]
		s.Allowed = append(s.Allowed, c[allowed])
		s.Denied = append(s.Denied, c[denied])
		s.WouldDeny = append(s.WouldDeny, c[wouldDeny])
	}
	return s
}

// time returns the time of a tick; the zero time for 0.
func (t tick) time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t) * (1000 / ticksPerSecond))
}

// tickOf returns the tick of a time.
func tickOf(t time.Time) tick { return tick(t.UnixMilli() / (1000 / ticksPerSecond)) }

// duration returns a number of ticks as a duration.
func (t tick) duration() time.Duration { return time.Duration(t) * (time.Second / ticksPerSecond) }
