package core

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

// SlowDown delays requests more and more as the limit fills up. Delays begin when the
// given level of the burst is used, above 0 and below 1. They grow in proportion to the
// use, up to maxDelay when nothing is left; maxDelay is at most one hour. Each request is
// delayed by itself, and others don't wait for it. Under [Limit.KeepFree], level and
// delay are of the whole burst.
func (l Limit) SlowDown(level float64, maxDelay time.Duration) Limit {
	l.settings.set(setSlow)
	l.slow = slowDown{level, maxDelay}
	return l
}

// slowDown holds the arguments of SlowDown.
type slowDown struct {
	level float64
	most  time.Duration
}

func (s slowDown) validate() error {
	switch {
	case s == slowDown{}:
		return nil
	case !(s.level > 0 && s.level < 1): // NaN, too
		return fmt.Errorf("the level of SlowDown must be above 0 and below 1, got %v", s.level)
	case s.most <= 0 || s.most > maxWait:
		return fmt.Errorf("the delay of SlowDown must be above 0 and at most %v, got %v", maxWait, s.most)
	}
	return nil
}

// delay returns by how much a request is delayed. It is 0 if it was not charged.
func (s slowDown) delay(r *LimitResult) time.Duration {
	if s.most == 0 || !r.Charged {
		return 0
	}
	whole := r.Rule.Whole
	from := min(threshold(s.level, whole), whole-1)
	over, room := r.used()-from, whole-from
	if over <= 0 {
		return 0
	}
	return time.Duration(integer.CeilMulDiv(over, int64(s.most), room))
}
