package redisstore_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Redis's clock decides in which day or month a request counts, however far the process's clock is
// off: from the first answer on, the process names Redis's windows.
func TestCalendarWindowsAreRedisClocksHoweverFarOff(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	process := time.Date(2026, time.March, 15, 12, 0, 0, 0, time.UTC)
	day := mustRule(t, core.PerCalendarDay(10, time.UTC).Named("day"))
	month := mustRule(t, core.PerMonth(10, time.UTC).Named("month"))
	for _, off := range []time.Duration{
		-400 * 24 * time.Hour, -40 * 24 * time.Hour, -3 * 24 * time.Hour, -36 * time.Hour, -time.Minute, 0,
		time.Minute, 36 * time.Hour, 3 * 24 * time.Hour, 40 * 24 * time.Hour, 400 * 24 * time.Hour,
	} {
		server := process.Add(off)
		s := redisstore.NewWithClocks(client, server.UnixMicro, process.UnixMicro, redisstore.Config{Prefix: redistest.Prefix(t)})
		take(t, s, checkOf("first", day, 1))
		midnight := server.Truncate(24 * time.Hour).Add(24 * time.Hour)
		first := time.Date(server.Year(), server.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		if got := take(t, s, checkOf("k", day, 1))[0]; got.ResetAfter != midnight.Sub(server) || got.Remaining != 9 {
			t.Errorf("Redis is %v ahead: %d remain, the day ends in %v; want 9 and %v", off, got.Remaining, got.ResetAfter, midnight.Sub(server))
		}
		next := midnight.Add(24 * time.Hour)
		if got := take(t, s, checkOf("first", day, 1))[0]; got.ResetAfter > next.Sub(server) || got.Remaining != 8 {
			t.Errorf("Redis is %v ahead: %d remain of a window that began before that was known, which ends in %v; want 8 and at most %v", off, got.Remaining, got.ResetAfter, next.Sub(server))
		}
		if got := take(t, s, checkOf("k", month, 1))[0]; got.ResetAfter != first.Sub(server) {
			t.Errorf("Redis is %v ahead: the month ends in %v, want %v", off, got.ResetAfter, first.Sub(server))
		}
		if got := take(t, s, checkOf("k", day, 10))[0]; got.Allowed || got.RetryAfter != midnight.Sub(server) {
			t.Errorf("Redis is %v ahead: a client that has used one of ten and asks for ten: %+v", off, got)
		}
	}
}

// Redis's clock is set back by days while the clocks of processes are right: a full window ends no later
// than the next window by Redis's clock, and a client that waits for as long as it is told is admitted.
func TestCalendarWindowsEndAfterRedisClockIsSetBack(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	process := time.Date(2026, time.March, 15, 12, 0, 0, 0, time.UTC)
	for name, limit := range map[string]core.Limit{"day": core.PerCalendarDay(10, time.UTC), "month": core.PerMonth(10, time.UTC)} {
		rule := mustRule(t, limit.Named(name))
		for _, back := range []time.Duration{time.Minute, 13 * time.Hour, 36 * time.Hour, 3 * 24 * time.Hour, 16 * 24 * time.Hour, 80 * 24 * time.Hour, 400 * 24 * time.Hour} {
			server := process
			clock := func() int64 { return server.UnixMicro() } //nolint:gocritic // unlambda: server is set back below
			s := redisstore.NewWithClocks(client, clock, process.UnixMicro, redisstore.Config{Prefix: redistest.Prefix(t)})
			if got := take(t, s, checkOf("k", rule, 10))[0]; !got.Allowed {
				t.Fatalf("%+v", got)
			}
			server = process.Add(-back)
			_, end, next := rule.Period(server.UnixMicro())
			if end == next {
				t.Fatal("no next window")
			}
			for n := range 2 {
				got := take(t, s, checkOf("k", rule, 1))[0]
				if got.Allowed {
					t.Fatalf("%s, set back by %v: a full window grants more: %+v", name, back, got)
				}
				if ends := server.Add(got.RetryAfter); n > 0 && ends.UnixMicro() != end && ends.UnixMicro() != next {
					t.Errorf("%s, set back by %v to %v: full until %v, which ends neither the present nor the next window", name, back, server, ends)
				}
				if n > 0 {
					server = server.Add(got.RetryAfter)
				}
			}
			if got := take(t, s, checkOf("k", rule, 10))[0]; !got.Allowed {
				t.Errorf("%s, set back by %v: denied after Retry-After: %+v", name, back, got)
			}
		}
	}
}
