package billing

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota"
)

// Billing days at the end of months, leap years, and days on which clocks change: the periods in PostgreSQL
// are those of core's calendar, whatever PostgreSQL's own clock and this process's say.
func TestPeriodsAreThoseOfTheCalendar(t *testing.T) {
	t.Parallel()
	zone := func(name string) *time.Location {
		return must.Get(time.LoadLocation(name))(t)
	}
	berlin, apia, adelaide := zone("Europe/Berlin"), zone("Pacific/Apia"), zone("Australia/Adelaide")
	pool := connect(t, pgtest.Shared(t).Database(t))
	for _, tt := range []struct {
		limit core.Limit
		from  time.Time
		days  int
	}{
		{core.PerBillingMonth(1000, 31, time.UTC).Named("utc31"), time.Date(2027, 12, 25, 12, 0, 0, 0, time.UTC), 100}, // 29 February 2028
		{core.PerBillingMonth(1000, 31, berlin).Named("berlin31"), time.Date(2026, 1, 25, 22, 30, 0, 0, time.UTC), 120},
		{core.PerBillingMonth(1000, 29, berlin).Named("berlin29"), time.Date(2027, 2, 1, 23, 30, 0, 0, time.UTC), 62}, // 28 days in February
		{core.PerCalendarDay(1000, berlin).Named("march"), time.Date(2026, 3, 27, 22, 59, 0, 0, time.UTC), 4},
		{core.PerCalendarDay(1000, adelaide).Named("october"), time.Date(2026, 10, 2, 13, 0, 0, 0, time.UTC), 4},
		{core.PerCalendarDay(1000, apia).Named("apia"), time.Date(2011, 12, 28, 9, 0, 0, 0, time.UTC), 5}, // had no 30 December
		{core.PerMonth(1000, berlin).Named("month"), time.Date(2100, 2, 26, 22, 0, 0, 0, time.UTC), 5},    // no leap year
	} {
		m := memstore.New(memstore.Config{})
		var now atomic.Int64
		now.Store(tt.from.UnixMicro())
		testclock.Set(m, now.Load)
		book := must.Get(quota.Open(t.Context(), pool, quota.Config{Store: m, FlushEvery: time.Minute, Timeout: patience}))(t)
		limit := tt.limit.By(keyfuncs.Tenant("tenant"))
		rules := must.Get(rulesOf(book.Store(), limit))(t)
		want := make(map[string]int64)
		for range tt.days * 4 {
			checks, results := []store.Check{{Key: []byte(tenant(1)), Rule: rules[0], Cost: 3}}, make([]store.Result, 1)
			if err := book.Store().Take(t.Context(), checks, results); err != nil || !results[0].Charged {
				t.Fatalf("%s: %+v, %v", rules[0].Name, results[0], err)
			}
			start, end, _ := rules[0].Period(now.Load())
			want[fmt.Sprint(time.UnixMicro(start).UTC(), time.UnixMicro(end).UTC())] += 3
			now.Add((6 * time.Hour).Microseconds())
		}
		must.OK(t, book.Close(t.Context()))
		got := make(map[string]int64)
		for u, err := range book.Usage(t.Context(), quota.Query{Limit: rules[0].Name, From: tt.from.AddDate(-1, 0, 0), To: tt.from.AddDate(1, 0, 0)}) {
			if err != nil {
				t.Fatal(err)
			}
			got[fmt.Sprint(u.Start, u.End)] += u.Used
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n%v in the ledger\n%v by the calendar", rules[0].Name, got, want)
		}
		days := must.Get(book.Days(t.Context(), quota.Query{Limit: rules[0].Name, From: tt.from.AddDate(-1, 0, 0), To: tt.from.AddDate(1, 0, 0)}))(t)
		// What was used on each day, by the clock on the wall.
		wall := make(map[string]int64)
		for i := range tt.days * 4 {
			wall[tt.from.Add(time.Duration(i)*6*time.Hour).In(rules[0].Calendar.Location).Format(time.DateOnly)] += 3
		}
		for _, d := range days {
			day := d.Day.Format(time.DateOnly)
			if wall[day] -= d.Used; wall[day] == 0 {
				delete(wall, day)
			}
		}
		if len(wall) > 0 {
			t.Errorf("%s: by day, the ledger differs by %v", rules[0].Name, wall)
		}
	}
}
