package core

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

// SlowDown delays requests more and more, instead of not at all and then denying
// them: from a level of the burst on, above 0 and below 1, by a delay that grows
// in proportion to what is used, up to most when nothing is left. The delay is the
// request's alone: others don't wait for it. Under [Limit.Reserve] level and delay
// are of the whole burst.
func (l Limit) SlowDown(level float64, most time.Duration) Limit {
	l.slow = slowDown{level, most}
	return l
}

// slowDown is from which level on requests are delayed, and by how much at most.
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

// delay returns the delay of a request that was charged.
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
