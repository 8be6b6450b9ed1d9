package core_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
	_ "time/tzdata" // so that the tests run where the system has no zones

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// usedUp returns a denial by a limit of which everything was used at a time.
func usedUp(t testing.TB, limit core.Limit, units int64, now time.Time) core.Decision {
	t.Helper()
	store, clock := at()
	clock.Set(now)
	l := newLimiter(t, core.Config{Store: store, Limits: []core.Limit{limit}, Headers: core.XQuota})
	if d := l.AllowKey(t.Context(), "k", units); !d.Allowed {
		t.Fatalf("the first %d units are denied", units)
	}
	d := l.AllowKey(t.Context(), "k", 1)
	if d.Allowed {
		t.Fatal("nothing is denied")
	}
	return d
}

// The detail of a denial says which days are meant, as the clocks of the limit's time zone show
// them, and X-Quota-Reset is when they end.
func TestUsedUpPeriods(t *testing.T) {
	t.Parallel()
	berlin, apia, santiago := zone(t, "Europe/Berlin"), zone(t, "Pacific/Apia"), zone(t, "America/Santiago")
	at := func(loc *time.Location, year int, month time.Month, day, hour, minute int) time.Time {
		return time.Date(year, month, day, hour, minute, 0, 0, loc)
	}
	month := func(day int, loc *time.Location) core.Limit { return core.PerBillingMonth(1000, day, loc) }
	day := func(loc *time.Location) core.Limit { return core.PerCalendarDay(1000, loc) }
	for _, tt := range []struct {
		name       string
		limit      core.Limit
		now        time.Time
		days, next string
		end        time.Time
	}{
		{"a month", month(1, time.UTC), at(time.UTC, 2026, 11, 22, 12, 0), "November", "1 December", at(time.UTC, 2026, 12, 1, 0, 0)},
		{"its first instant", month(1, time.UTC), at(time.UTC, 2026, 11, 1, 0, 0), "November", "1 December", at(time.UTC, 2026, 12, 1, 0, 0)},
		{"its last second", month(1, time.UTC), time.Date(2026, 11, 30, 23, 59, 59, 999_999_000, time.UTC), "November", "1 December", at(time.UTC, 2026, 12, 1, 0, 0)},
		{"the end of the year", month(1, time.UTC), at(time.UTC, 2026, 12, 31, 23, 59), "December", "1 January", at(time.UTC, 2027, 1, 1, 0, 0)},
		{"another month where the customers are", month(1, berlin), at(time.UTC, 2026, 10, 31, 23, 30), "November", "1 December", at(berlin, 2026, 12, 1, 0, 0)},
		{"a month in which clocks change", month(1, berlin), at(berlin, 2026, 3, 29, 12, 0), "March", "1 April", at(berlin, 2026, 4, 1, 0, 0)},
		{"a billing month", month(15, time.UTC), at(time.UTC, 2026, 11, 22, 0, 0), "15 November to 14 December", "15 December", at(time.UTC, 2026, 12, 15, 0, 0)},
		{"before its day", month(15, time.UTC), at(time.UTC, 2026, 11, 14, 0, 0), "15 October to 14 November", "15 November", at(time.UTC, 2026, 11, 15, 0, 0)},
		{"over the end of the year", month(15, time.UTC), at(time.UTC, 2027, 1, 2, 0, 0), "15 December to 14 January", "15 January", at(time.UTC, 2027, 1, 15, 0, 0)},
		{"from the 31st", month(31, time.UTC), at(time.UTC, 2027, 1, 31, 0, 0), "31 January to 27 February", "28 February", at(time.UTC, 2027, 2, 28, 0, 0)},
		{"from the 31st in a leap year", month(31, time.UTC), at(time.UTC, 2028, 1, 31, 0, 0), "31 January to 28 February", "29 February", at(time.UTC, 2028, 2, 29, 0, 0)},
		{"from the 31st, in a short month", month(31, time.UTC), at(time.UTC, 2028, 2, 29, 0, 0), "29 February to 30 March", "31 March", at(time.UTC, 2028, 3, 31, 0, 0)},
		{"a day", day(time.UTC), at(time.UTC, 2026, 11, 22, 12, 0), "22 November", "23 November", at(time.UTC, 2026, 11, 23, 0, 0)},
		{"the last day of a leap year's February", day(time.UTC), at(time.UTC, 2028, 2, 29, 12, 0), "29 February", "1 March", at(time.UTC, 2028, 3, 1, 0, 0)},
		{"a day of 25 hours", day(berlin), at(berlin, 2026, 10, 25, 23, 59), "25 October", "26 October", at(berlin, 2026, 10, 26, 0, 0)},
		{"a day of 23 hours", day(berlin), at(berlin, 2026, 3, 29, 0, 0), "29 March", "30 March", at(berlin, 2026, 3, 30, 0, 0)},
		{"a day that begins at 1:00", day(santiago), at(santiago, 2026, 9, 6, 12, 0), "6 September", "7 September", at(santiago, 2026, 9, 7, 0, 0)},
		{"a day before one that was skipped", day(apia), at(apia, 2011, 12, 29, 12, 0), "29 December", "31 December", at(apia, 2011, 12, 31, 0, 0)},
		{"a billing month whose last day was skipped", month(31, apia), at(apia, 2011, 12, 29, 12, 0), "30 November to 29 December", "31 December", at(apia, 2011, 12, 31, 0, 0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := usedUp(t, tt.limit.By(keyfuncs.Tenant("tenant")), 1000, tt.now)
			want := "Your plan's 1,000 requests for " + tt.days + " are used up; the next period begins on " + tt.next + "."
			check.Equal(t, "detail", parseProblem(t, []byte(problemBody(d))).Detail, want)
			h := told(d)
			for name, want := range map[string]string{"X-Quota-Limit": "1000", "X-Quota-Remaining": "0", "X-Quota-Reset": strconv.FormatInt(tt.end.Unix(), 10)} {
				check.Equal(t, name, h.Get(name), want)
			}
			check.Equal(t, "Retry-After", h.Get("Retry-After"), strconv.FormatInt(int64((tt.end.Sub(tt.now)+time.Second-1)/time.Second), 10))
		})
	}
}

// What units are called depends on what they count, and whose they are.
func TestUsedUpWords(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	unkeyed := func(n int64) core.Limit { return core.PerMonth(n, time.UTC) }
	month := func(n int64) core.Limit { return unkeyed(n).By(keyfuncs.User("user")) }
	const rest = " for November are used up; the next period begins on 1 December."
	for _, tt := range []struct {
		name  string
		limit core.Limit
		used  int64
		cost  int64
		want  string
	}{
		{"a user", month(999), 999, 1, "Your plan's 999 requests" + rest},
		{"an API key", unkeyed(100_000).By(keyfuncs.APIKey()), 100_000, 1, "Your plan's 100,000 requests" + rest},
		{"each route of a tenant", unkeyed(1_000_000).By(keyfuncs.Tenant("t"), keyfuncs.Route()), 1_000_000, 1, "Your plan's 1,000,000 requests" + rest},
		{"an address", unkeyed(12_034_005).By(keyfuncs.ClientIP()), 12_034_005, 1, "The 12,034,005 requests" + rest},
		{"a user, or else an address", unkeyed(1000).By(keyfuncs.First(keyfuncs.User("user"), keyfuncs.ClientIP())), 1000, 1, "The 1,000 requests" + rest},
		{"all together", unkeyed(1000).By(keyfuncs.Everyone()), 1000, 1, "The 1,000 requests" + rest},
		{"one", month(1), 1, 1, "Your plan's 1 request for November is used up; the next period begins on 1 December."},
		{"requests that cost more", month(1000).Cost(10), 1000, 10, "Your plan's 1,000 units" + rest},
		{"one unit of requests that cost what they say", month(1).CostBy(func(keyfuncs.Request) int64 { return 1 }), 1, 1, "Your plan's 1 unit for November is used up; the next period begins on 1 December."},
		{"requests that cost what they turn out to", month(1000).Estimate(10), 1000, 10, "Your plan's 1,000 units" + rest},
		{"requests that succeed", month(1000).RefundOn(core.Failures), 1000, 1, "Your plan's 1,000 requests" + rest},
		{"too few are left", month(1000).Cost(10), 997, 10, "Your plan's 1,000 units for November are used up but for 3, fewer than the request costs; the next period begins on 1 December."},
		{"too few are left of what other requests count", month(1000), 997, 10, "Your plan's 1,000 units for November are used up but for 3, fewer than the request costs; the next period begins on 1 December."},
		{"a soft limit", month(1200).Soft(1000), 1200, 1, "Your plan's 1,200 requests" + rest},
		{"more than there ever is", month(5), 5, 6, "The request costs more than the limit ever allows."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, clock := at()
			clock.Set(now)
			l := limiterOn(t, store, tt.limit)
			l.AllowKey(t.Context(), "k", tt.used)
			d := l.AllowKey(t.Context(), "k", tt.cost)
			check.Equal(t, "detail", parseProblem(t, []byte(problemBody(d))).Detail, tt.want)
			check.Equal(t, "allowed", d.Allowed, false)
		})
	}
}

const november = 1_795_348_800_000_000 // 22 November 2026, 12:00, in microseconds

// Other limits that deny have the sentence that they have elsewhere.
func TestUsedUpBesideOtherLimits(t *testing.T) {
	t.Parallel()
	limits := []core.Limit{
		core.PerSecond(5).By(keyfuncs.Everyone()).Named("second"),
		core.PerMonth(5, time.UTC).By(keyfuncs.User("user")).Named("month"),
		core.PerCalendarDay(5, time.UTC).By(keyfuncs.User("user")).Named("day"),
		core.PerCalendarDay(1, time.UTC).By(keyfuncs.User("user")).Named("trial").Shadow(),
	}
	fine := func(left int64) core.Result { return core.Result{Allowed: true, Remaining: left, At: november} }
	wait := func(d time.Duration) core.Result { return core.Result{RetryAfter: d, At: november} }
	blocked := core.Result{RetryAfter: time.Hour, Blocked: true, At: november}
	for _, tt := range []struct {
		name    string
		results []core.Result
		want    string
		quota   string // the name of the limit that Quota is about
	}{
		{"another limit", []core.Result{wait(time.Second), fine(5), fine(4), {}}, "Rate limit exceeded. Retry in 1 second.", "day"},
		{"the month", []core.Result{fine(0), wait(time.Hour), fine(0), {}}, "Your plan's 5 requests for November are used up; the next period begins on 1 December.", "month"},
		{"the day", []core.Result{fine(0), fine(0), wait(time.Hour), {}}, "Your plan's 5 requests for 22 November are used up; the next period begins on 23 November.", "day"},
		{"both: the longer wait", []core.Result{fine(0), wait(2 * time.Hour), wait(time.Hour), {}}, "Your plan's 5 requests for November are used up; the next period begins on 1 December.", "month"},
		{"a longer wait than the day's", []core.Result{wait(time.Minute), fine(0), wait(time.Second), {}}, "Rate limit exceeded. Retry in 60 seconds.", "day"},
		{"a block", []core.Result{fine(0), blocked, fine(0), {}}, "Blocked. Retry in 3600 seconds.", "month"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := decided(t, limits, tt.results...)
			check.Equal(t, "detail", parseProblem(t, []byte(problemBody(d))).Detail, tt.want)
			q, _ := d.Quota()
			check.Equal(t, "what Quota is about", q.Name, tt.quota)
		})
	}
}

func TestQuotaFields(t *testing.T) {
	t.Parallel()
	const december = "1796083200" // its first second
	month, day := monthly(5).Named("month"), core.PerCalendarDay(9, time.UTC).By(keyfuncs.Everyone()).Named("day")
	second := core.PerSecond(2).By(keyfuncs.Everyone()).Named("second")
	left := func(n int64) core.Result { return core.Result{Allowed: true, Remaining: n, At: november} }
	for _, tt := range []struct {
		name    string
		limits  []core.Limit
		results []core.Result
		want    http.Header
	}{
		{"a month", []core.Limit{month}, []core.Result{left(4)}, lines("X-Quota-Limit", "5", "X-Quota-Remaining", "4", "X-Quota-Reset", december)},
		{"nothing used", []core.Limit{month}, []core.Result{left(5)}, lines("X-Quota-Limit", "5", "X-Quota-Remaining", "5", "X-Quota-Reset", december)},
		{"fewer than nothing left", []core.Limit{month}, []core.Result{left(-1)}, lines("X-Quota-Limit", "5", "X-Quota-Remaining", "0", "X-Quota-Reset", december)},
		{"beside a limit that binds", []core.Limit{second, month}, []core.Result{left(1), left(4)}, lines("X-Quota-Limit", "5", "X-Quota-Remaining", "4", "X-Quota-Reset", december)},
		{"of two the one with fewer left", []core.Limit{second, month, day}, []core.Result{left(0), left(4), left(3)}, lines("X-Quota-Limit", "9", "X-Quota-Remaining", "3", "X-Quota-Reset", "1795392000")},
		{"of two alike the first", []core.Limit{month, day}, []core.Result{left(4), left(4)}, lines("X-Quota-Limit", "5", "X-Quota-Remaining", "4", "X-Quota-Reset", december)},
		{"none in shadow mode", []core.Limit{second, month.Shadow()}, []core.Result{left(1), left(4)}, http.Header{}},
		{"without a calendar limit", []core.Limit{second}, []core.Result{left(1)}, http.Header{}},
		{
			"another limit denies",
			[]core.Limit{second, month},
			[]core.Result{{RetryAfter: time.Second, At: november}, left(4)},
			lines("X-Quota-Limit", "5", "X-Quota-Remaining", "4", "X-Quota-Reset", december, "Retry-After", "1"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := decidedIn(t, core.Config{Headers: core.XQuota, Limits: tt.limits}, tt.results...)
			wantTold(t, tt.name, d, tt.want)
			without := decidedIn(t, core.Config{Headers: core.XRateLimit, Limits: tt.limits}, tt.results...)
			for name := range told(without) {
				if len(name) > 8 && name[:8] == "X-Quota-" {
					t.Errorf("%s is there although nobody asked for it", name)
				}
			}
		})
	}
}

// A denial by a limiter further in, of another limit, leaves what remains of the month. One by a
// calendar limit replaces it.
func TestQuotaFieldsOfTwoLimiters(t *testing.T) {
	t.Parallel()
	decide := func(limit core.Limit, r core.Result) core.Decision {
		r.At = november
		return decidedIn(t, core.Config{Headers: core.XQuota | core.XRateLimit, Limits: []core.Limit{limit}}, r)
	}
	month := decide(monthly(5), core.Result{Allowed: true, Remaining: 2})
	second := decide(core.PerSecond(9).By(keyfuncs.Everyone()), core.Result{Remaining: 1, RetryAfter: time.Second})
	day := decide(core.PerCalendarDay(50, time.UTC).By(keyfuncs.Everyone()), core.Result{Remaining: 8, RetryAfter: time.Hour})
	for name, tt := range map[string]struct {
		denial    core.Decision
		limit     string
		remaining string
	}{
		"by another limit":    {second, "5", "2"},
		"by a calendar limit": {day, "50", "8"},
	} {
		for kind, as := range map[string]func(http.Header) core.Header{"HeaderMap": asMap, "http.Header": asHeader, "another": asOther} {
			h := http.Header{}
			month.SetHeaders(as(h))
			tt.denial.SetHeaders(as(h))
			check.Equal(t, "a denial "+name+", through "+kind, [2]string{h.Get("X-Quota-Limit"), h.Get("X-Quota-Remaining")}, [2]string{tt.limit, tt.remaining})
		}
	}
}

// In an outage nobody knows what was used: a process's share is no plan.
func TestNoQuotaInAnOutage(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	l := newLimiter(t, core.Config{Store: store, Headers: core.XQuota, Replicas: 3, Limits: []core.Limit{
		core.PerMonth(3, time.UTC).By(keyfuncs.User("user")),
	}})
	for i, want := range []bool{true, false} {
		d := l.AllowKey(context.Background(), "k", 1)
		must.Equal(t, fmt.Sprintf("request %d", i+1), outcomeOf(d), outcome{want, core.ReasonOutageLocal})
		if q, ok := d.Quota(); ok {
			t.Errorf("request %d: Quota says %+v", i+1, q)
		}
		check.Equal(t, fmt.Sprintf("request %d: X-Quota-Limit", i+1), told(d).Get("X-Quota-Limit"), "")
		if detail := parseProblem(t, []byte(problemBody(d))).Detail; !want && detail[:20] != "Rate limit exceeded." {
			t.Errorf("request %d: %q", i+1, detail)
		}
	}
	for name, d := range map[string]core.Decision{
		"the zero decision":        {},
		"a key that is missing":    newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerMonth(3, time.UTC).By(keyfuncs.User("user")).OnMissingKey(core.DenyRequest)}}).Allow(&request{}),
		"a cost that is no cost":   limiterOn(t, core.NewMemory(), monthly(5)).AllowKey(t.Context(), "k", -1),
		"without a calendar limit": limiterOn(t, core.NewMemory(), everyone(5)).AllowKey(t.Context(), "k", 1),
	} {
		if q, ok := d.Quota(); ok {
			t.Errorf("%s: Quota says %+v", name, q)
		}
		_ = problemBody(d) // which must not panic
	}
}

// A class of requests that may not use the whole quota is denied while others are served.
func TestUsedUpIsNotSaidOfAClass(t *testing.T) {
	t.Parallel()
	limit := monthly(10).KeepFree(0.5, keyfuncs.Methods("POST"))
	l := limiterOn(t, core.NewMemory(), limit)
	var d core.Decision
	for range 6 {
		d = l.Allow(&request{})
	}
	if detail := parseProblem(t, []byte(problemBody(d))).Detail; d.Allowed || detail[:20] != "Rate limit exceeded." {
		t.Errorf("allowed: %v, %q", d.Allowed, detail)
	}
}

// The store's clock was set back over the beginning of a month. What is left is that of the month that goes on.
func TestQuotaAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	m, clock := at()
	clock.Set(time.Date(2026, time.May, 1, 0, 0, 1, 0, time.UTC))
	l := newLimiter(t, core.Config{Store: m, Headers: core.XQuota, Limits: []core.Limit{monthly(10)}})
	l.AllowKey(t.Context(), "k", 4)
	clock.Set(time.Date(2026, time.April, 30, 23, 59, 0, 0, time.UTC))
	d := l.AllowKey(t.Context(), "k", 1)
	june := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	if q, _ := d.Quota(); q.Remaining != 5 || !q.Start.Equal(june.AddDate(0, -1, 0)) || !q.End.Equal(june) {
		t.Errorf("5 units are left of May, got %+v", q)
	}
	check.Equal(t, "X-Quota-Reset", told(d).Get("X-Quota-Reset"), fmt.Sprint(june.Unix()))
}

// Quota has what texts in other languages and pages need.
func TestQuotaOfADecision(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	limit := core.PerBillingMonth(120, 31, time.UTC).By(keyfuncs.Tenant("tenant")).Named("plan").Soft(100)
	l := limiterOn(t, memoryAt(now), limit)
	want := core.Quota{
		Name: "plan", Units: 120, Soft: 100, Remaining: 10,
		Start: time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC), End: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
		Period:   store.Period{Unit: store.CalendarMonth, Day: 31, Location: time.UTC},
		Requests: true, Personal: true,
	}
	d := l.AllowKey(t.Context(), "k", 110)
	if got, ok := d.Quota(); !ok || got != want || got.LastDay().Format(time.DateOnly) != "2026-11-29" {
		t.Errorf("got\n\t%+v, want\n\t%+v", got, want)
	}
	check.Equal(t, fmt.Sprint("over the soft limit: ", d.OverSoft()), told(d).Get("X-RateLimit-Warning"), `over soft limit; policy="plan"; used=91%`)
	want.UsedUp = true
	d = l.AllowKey(t.Context(), "k", 11)
	if got, ok := d.Quota(); !ok || got != want {
		t.Errorf("a denial: got\n\t%+v, want\n\t%+v", got, want)
	}
}
