package redisstore

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// The process says where the window's edges are, and Redis's clock what time it is. So
// processes whose clocks are off by up to a whole period count in the same window.
func TestCalendarWindowIsRedisClocks(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	rule := mustRule(core.PerMonth(10, time.UTC).Named("month"))
	redis := time.Date(2026, time.March, 15, 12, 0, 0, 0, time.UTC)
	end := time.Date(2026, time.April, 1, 0, 0, 0, 0, time.UTC)
	ask := func(op operation, prefix string, process time.Time, charged int64) core.Result {
		t.Helper()
		checks := []core.Check{{Key: []byte("k"), Rule: &rule, Cost: 1}}
		p := newJob(op, 0)
		p.Clock = process.UnixMicro()
		p.add(0, &checks[0], charged)
		p.seal(prefix)
		runBatch(t, client, redis.UnixMicro(), p)
		var results [1]core.Result
		must.OK(t, p.readAnswer(checks, results[:]))
		return results[0]
	}
	for name, off := range map[string]time.Duration{
		"right": 0, "seconds ahead": 30 * time.Second, "a month behind": -28 * 24 * time.Hour,
		"in April already": 17 * 24 * time.Hour, "in February still": -15 * 24 * time.Hour,
	} {
		fresh := redistest.Prefix(t) + name
		got := ask(take, fresh, redis.Add(off), 0)
		if want := end.Sub(redis); got.ResetAfter != want || got.Remaining != 9 {
			t.Errorf("%s: %d remain, and the window ends in %v; want 9 and %v", name, got.Remaining, got.ResetAfter, want)
		}
		if got := ask(take, fresh, redis, 0); got.Remaining != 8 {
			t.Errorf("%s: then %d remain, want 8", name, got.Remaining)
		}
		if back := ask(refund, fresh, redis.Add(off), got.At); back.Remaining != 9 {
			t.Errorf("%s: after a refund %d remain, want 9", name, back.Remaining)
		}
	}
	// Redis's clock is a year behind that of the process: a window lasts for two months at most.
	early := redistest.Prefix(t)
	for n := range int64(12) {
		if got := ask(take, early, redis.AddDate(1, 0, 0), 0); got.Allowed != (n < 10) || got.ResetAfter <= 0 || got.ResetAfter > 62*24*time.Hour {
			t.Errorf("a year ahead, request %d: %+v", n+1, got)
		}
	}
	// A process that is further behind can't name the current window, and grants no more.
	late := redistest.Prefix(t)
	for n := range int64(12) {
		if got := ask(take, late, redis.AddDate(-1, 0, 0), 0); got.Allowed != (n < 10) || got.ResetAfter <= 0 || got.ResetAfter > 31*24*time.Hour {
			t.Errorf("a year behind, request %d: %+v", n+1, got)
		}
	}
}
