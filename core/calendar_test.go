package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestCalendarPeriods(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		limit      core.Limit
		now        string
		start, end string
	}{
		{"February 29", core.PerMonth(1, time.UTC), "2028-02-29T23:59:59Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"February without it", core.PerMonth(1, time.UTC), "2100-02-28T12:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"},
		{"the turn of the year", core.PerMonth(1, storetest.Zone("Asia/Kolkata")), "2026-12-31T18:30:00Z", "2027-01-01T00:00:00+05:30", "2027-02-01T00:00:00+05:30"},
		{"the instant before it", core.PerMonth(1, storetest.Zone("Asia/Kolkata")), "2026-12-31T18:29:59.999999Z", "2026-12-01T00:00:00+05:30", "2027-01-01T00:00:00+05:30"},
		{"a month with 743 hours", core.PerMonth(1, storetest.Zone("America/New_York")), "2026-03-08T12:00:00Z", "2026-03-01T00:00:00-05:00", "2026-04-01T00:00:00-04:00"},
		{"bills of the 31st in February", core.PerBillingMonth(1, 31, time.UTC), "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"bills of the 31st before February's end", core.PerBillingMonth(1, 31, time.UTC), "2026-02-27T23:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"bills of the 30th on February 29", core.PerBillingMonth(1, 30, time.UTC), "2028-02-29T01:00:00Z", "2028-02-29T00:00:00Z", "2028-03-30T00:00:00Z"},
		{"bills of the 29th in a short February", core.PerBillingMonth(1, 29, time.UTC), "2027-03-01T00:00:00Z", "2027-02-28T00:00:00Z", "2027-03-29T00:00:00Z"},
		{"bills of the 31st in November", core.PerBillingMonth(1, 31, time.UTC), "2026-12-01T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-31T00:00:00Z"},
		{"bills of the 15th around New Year", core.PerBillingMonth(1, 15, time.UTC), "2027-01-14T23:00:00Z", "2026-12-15T00:00:00Z", "2027-01-15T00:00:00Z"},
		{"23 hours in Berlin", core.PerCalendarDay(1, storetest.Zone("Europe/Berlin")), "2026-03-29T10:00:00Z", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"25 hours in Berlin", core.PerCalendarDay(1, storetest.Zone("Europe/Berlin")), "2026-10-25T10:00:00Z", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"23 and a half hours on Lord Howe", core.PerCalendarDay(1, storetest.Zone("Australia/Lord_Howe")), "2026-10-04T10:00:00+11:00", "2026-10-04T00:00:00+10:30", "2026-10-05T00:00:00+11:00"},
		{"no 0:00 in Beirut", core.PerCalendarDay(1, storetest.Zone("Asia/Beirut")), "2026-03-29T10:00:00Z", "2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"},
		{"no 0:00 in São Paulo", core.PerCalendarDay(1, storetest.Zone("America/Sao_Paulo")), "2018-11-04T12:00:00Z", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"a month without its first hour", core.PerBillingMonth(1, 4, storetest.Zone("America/Sao_Paulo")), "2018-11-04T12:00:00Z", "2018-11-04T01:00:00-02:00", "2018-12-04T00:00:00-02:00"},
		{"23:00 twice in São Paulo", core.PerCalendarDay(1, storetest.Zone("America/Sao_Paulo")), "2018-02-17T23:30:00-03:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"0:00 twice in Havana", core.PerCalendarDay(1, storetest.Zone("America/Havana")), "2026-11-01T00:30:00-05:00", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"back into the day before in St. John's", core.PerCalendarDay(1, storetest.Zone("America/St_Johns")), "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"a day that Samoa has skipped", core.PerCalendarDay(1, storetest.Zone("Pacific/Apia")), "2011-12-29T23:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"bills of the day that Samoa has skipped", core.PerBillingMonth(1, 30, storetest.Zone("Pacific/Apia")), "2011-12-31T08:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-30T00:00:00+14:00"},
		{"long ago", core.PerCalendarDay(1, time.UTC), "1969-12-31T23:59:59Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z"},
		{"a zone of one's own", core.PerCalendarDay(1, time.FixedZone("shift", -6*3600)), "2026-06-01T05:59:59Z", "2026-05-31T06:00:00Z", "2026-06-01T06:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := mustRule(t, tt.limit)
			now, start, end := parse(t, tt.now), parse(t, tt.start), parse(t, tt.end)
			gotStart, gotEnd, next := r.Period(now.UnixMicro())
			check.Equal(t, "the period", [2]time.Time{time.UnixMicro(gotStart).UTC(), time.UnixMicro(gotEnd).UTC()}, [2]time.Time{start.UTC(), end.UTC()})
			_, then, _ := r.Period(gotEnd)
			check.Equal(t, "the end of the next period", time.UnixMicro(then).UTC(), time.UnixMicro(next).UTC())
			check.Equal(t, "PeriodEnd", r.PeriodEnd(now.UnixMicro()), gotEnd)
		})
	}
}

func parse(t *testing.T, s string) time.Time {
	t.Helper()
	return must.Get(time.Parse(time.RFC3339Nano, s))(t)
}

// Whatever zones do to their clocks, periods follow each other, each a day or a
// month long and a little.
func TestCalendarPeriodsFollowEachOther(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour / time.Microsecond)
	for _, name := range []string{
		"UTC", "Europe/Berlin", "Europe/Dublin", "Europe/London", "America/New_York", "America/Sao_Paulo", "America/St_Johns",
		"America/Havana", "America/Caracas", "America/Asuncion", "America/Santiago", "Atlantic/Azores", "Africa/Casablanca", "Africa/Cairo",
		"Asia/Kolkata", "Asia/Kathmandu", "Asia/Tehran", "Asia/Beirut", "Asia/Gaza", "Asia/Amman", "Asia/Pyongyang", "Australia/Lord_Howe",
		"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati", "Pacific/Chatham", "Antarctica/Troll",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loc := storetest.Zone(name)
			first := time.Date(1985, time.January, 1, 0, 0, 0, 0, time.UTC)
			last := first.AddDate(long.Rounds(41, 60), 0, 0).UnixMicro()
			for kind, limit := range map[string]core.Limit{
				"day": core.PerCalendarDay(1, loc), "month": core.PerMonth(1, loc), "29": core.PerBillingMonth(1, 29, loc),
				"30": core.PerBillingMonth(1, 30, loc), "31": core.PerBillingMonth(1, 31, loc),
			} {
				r := mustRule(t, limit)
				least, most := 27*24*hour, 33*24*hour
				if kind == "day" {
					least, most = 22*hour, 50*hour
				}
				start, end, next := r.Period(first.UnixMicro())
				for n := 0; start < last; n++ {
					began, ended, then := r.Period(end)
					if began != end || ended != next {
						t.Fatalf("%s: after %v comes one from %v", kind, time.UnixMicro(end).In(loc), time.UnixMicro(began).In(loc))
					}
					if length := end - start; length < least || length > most {
						t.Fatalf("%s: from %v to %v", kind, time.UnixMicro(start).In(loc), time.UnixMicro(end).In(loc))
					}
					if n%7 == 0 {
						if s, e, _ := r.Period(end - 1); s != start || e != end {
							t.Fatalf("%s: the last instant before %v is in another period", kind, time.UnixMicro(end).In(loc))
						}
						if at := time.UnixMicro(end).In(loc); at.Hour() > 3 {
							t.Fatalf("%s: begins at %v", kind, at)
						}
					}
					start, end, next = began, ended, then
				}
			}
		})
	}
}

func TestCalendarLimitsThatCanNotWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		limit core.Limit
		want  string
	}{
		{"no zone", core.PerMonth(10, nil), "location is nil"},
		{"no zone for days", core.PerCalendarDay(10, nil), "location is nil"},
		{"day 0", core.PerBillingMonth(10, 0, time.UTC), "from 1 to 31, got 0"},
		{"day 32", core.PerBillingMonth(10, 32, time.UTC), "from 1 to 31, got 32"},
		{"nothing", core.PerMonth(0, time.UTC), "at least 1"},
		{"too much", core.PerMonth(1<<52, time.UTC), "too large"},
		{"a burst", core.PerMonth(10, time.UTC).Burst(20), "Burst belongs to a token bucket, not to a calendar window"},
		{"jitter", core.PerMonth(10, time.UTC).Jitter(), "jitter belongs to windows"},
		{"another algorithm", core.PerMonth(10, time.UTC).SlidingWindow(), "can't be a sliding window"},
		{"a cost that never fits", core.PerMonth(10, time.UTC).Cost(11), "can never fit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tt.limit.Named("monthly").Rule()
			if err == nil || !strings.HasPrefix(err.Error(), `weblimit: limit "monthly": `) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
		})
	}
}

func TestCalendarRulesAreEqualByZone(t *testing.T) {
	t.Parallel()
	berlin := *mustRule(t, core.PerMonth(10, storetest.Zone("Europe/Berlin")))
	check.Equal(t, "the rule of another load of the zone", *mustRule(t, core.PerMonth(10, storetest.Zone("Europe/Berlin"))), berlin)
	check.Equal(t, "the rule of a billing month of day 1", *mustRule(t, core.PerBillingMonth(10, 1, storetest.Zone("Europe/Berlin"))), berlin)
	for name, other := range map[string]core.Limit{
		"another zone": core.PerMonth(10, time.UTC), "another day": core.PerBillingMonth(10, 2, storetest.Zone("Europe/Berlin")),
		"days": core.PerCalendarDay(10, storetest.Zone("Europe/Berlin")),
		// Alike in name, and nothing else.
		"a zone that is called so": core.PerMonth(10, time.FixedZone("Europe/Berlin", 3600)),
	} {
		if r := *mustRule(t, other); r == berlin || r.Integers == berlin.Integers {
			t.Errorf("%s makes an equal rule", name)
		}
	}
}

func TestCalendarHeaders(t *testing.T) {
	t.Parallel()
	store, clock := at()
	clock.Set(time.Date(2026, time.February, 27, 23, 59, 30, 0, time.UTC))
	l := limiterOn(t, store, core.PerMonth(10, time.UTC).By(keyfuncs.Everyone()).Named("monthly"))
	h := told(l.Allow(&request{}))
	check.Equal(t, "the policy, which has no window", h.Get("RateLimit-Policy"), `"monthly";q=10`)
	check.Equal(t, "RateLimit with the seconds to the month's end", h.Get("RateLimit"), `"monthly";r=9;t=86430`)
}

func TestTiersByTheMonth(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, core.PerMonth(100, time.UTC).By(keyfuncs.Everyone()).CostBy(costing).Tiers(plan))
	wantDecision(t, "60 of 100", l.Allow(on(core.Limit{}, 60)), true, core.ReasonWithinLimit, 40)
	wantDecision(t, "of 200", l.Allow(on(core.PerMonth(200, time.UTC), 1)), true, core.ReasonWithinLimit, 139)
	wantDecision(t, "from the 14th on", l.Allow(on(core.PerBillingMonth(200, 14, time.UTC), 1)), true, core.ReasonWithinLimit, 138)
	wantDecision(t, "no zone: the limit's own", l.Allow(on(core.PerMonth(200, nil), 0)), true, core.ReasonWithinLimit, 38)
}

// A decision costs two comparisons more than one of a fixed window.
func TestCalendarDecisionsAllocateNothing(t *testing.T) {
	store, _ := at()
	r := mustRule(t, core.PerMonth(1000, storetest.Zone("Europe/Berlin")))
	checks, results := []core.Check{{Key: []byte("k"), Rule: r, Cost: 1}}, make([]core.Result, 1)
	if n := testing.AllocsPerRun(100, func() { _ = store.Take(t.Context(), checks, results) }); n > 0 {
		t.Errorf("%v allocations per decision", n)
	}
}
