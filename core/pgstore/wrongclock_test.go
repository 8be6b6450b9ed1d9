package pgstore_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
)

// A process that is wrong about the server's time decides by the server's all the same.
func TestAWrongClockDoesNotDecide(t *testing.T) {
	t.Parallel()
	pool := sharedPool(t)
	config := migrated(t, pool)
	rule := mustRule(t, core.PerHour(10).FixedWindow().Named("plan"))
	for _, wrong := range []time.Duration{2 * time.Hour, time.Second, -2 * time.Second, -2 * time.Hour} {
		s := pgstore.New(pool, config)
		take(t, s, check("k", rule, 0))
		s.MisleadClock(wrong)
		before := time.Now()
		at := time.UnixMicro(take(t, s, check("k", rule, 1))[0].At)
		if at.Before(before.Add(-time.Second/2)) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("wrong by %v, it decided at %v, and it was %v", wrong, at, before)
		}
	}
	if left := take(t, pgstore.New(pool, config), check("k", rule, 0))[0].Remaining; left != 6 {
		t.Errorf("%d left, want 6", left)
	}
}
