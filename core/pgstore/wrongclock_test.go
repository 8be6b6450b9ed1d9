package pgstore_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
)

// A process that is wrong about the server's time decides by the server's all the same.
func TestAWrongClockDoesNotDecide(t *testing.T) {
	t.Parallel()
	pool, _ := shared(t)
	// Again if it was not one hour: the server's window has ended then.
	for ended := true; ended && !t.Failed(); {
		hour := time.Now().Truncate(time.Hour)
		left := decideByWrongClocks(t, pool)
		if ended = time.Now().Truncate(time.Hour) != hour; !ended && left != 6 {
			t.Errorf("%d left, want 6", left)
		}
	}
}

// decideByWrongClocks returns what four processes have left of a quota of 10 per hour.
func decideByWrongClocks(t *testing.T, pool *pgxpool.Pool) (left int64) {
	config := migrated(t, pool)
	rule := mustRule(t, core.PerHour(10).FixedWindow().Named("plan"))
	for _, wrong := range []time.Duration{2 * time.Hour, time.Second, -2 * time.Second, -2 * time.Hour} {
		s := pgstore.New(pool, config)
		began := time.Now()
		take(t, s, checkOf("k", rule, 0))
		s.MisleadClock(wrong)
		before := time.Now()
		at, after := time.UnixMicro(take(t, s, checkOf("k", rule, 1))[0].At), time.Now()
		// As long as the calls took, the server's time is not known.
		if slow := after.Sub(began); at.Before(before.Add(-time.Second/2-slow)) || at.After(after.Add(time.Second/2+slow)) {
			t.Errorf("wrong by %v, it decided at %v, and it was %v", wrong, at, before)
		}
	}
	return take(t, pgstore.New(pool, config), checkOf("k", rule, 0))[0].Remaining
}
