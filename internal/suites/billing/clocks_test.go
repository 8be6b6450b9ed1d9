package billing

import (
	"time"
)

// turn sets a clock: that of Redis to either side of the end of a day, or that of PostgreSQL up to an
// hour ahead and back.
func (s *scenario) turn() {
	if s.random.IntN(3) == 0 {
		ahead := time.Duration(s.random.IntN(2)) * time.Duration(1+s.random.IntN(60)) * time.Minute
		s.pgClock.SetAhead(s.t, ahead)
		s.note("PostgreSQL's clock set", "%v ahead", ahead)
		return
	}
	s.turnTo(time.Duration(s.random.IntN(130)-65) * time.Second / 10)
}

// turnTo sets Redis's clock to a time after the end of the day.
func (s *scenario) turnTo(after time.Duration) {
	ahead := time.Until(time.Unix(s.order.DayEnds, 0)) + after
	s.clock.SetAhead(s.t, ahead)
	s.note("Redis's clock set", "%v ahead", ahead)
}

// exports returns how many batches a receiver got of the processes.
func (s *scenario) exports() (n int) {
	for _, r := range s.records() {
		n += r.batches
	}
	return n
}

// right sets all clocks right.
func (s *scenario) right() {
	if s.clock != nil {
		s.clock.SetAhead(s.t, 0)
		s.pgClock.SetAhead(s.t, 0)
	}
}
