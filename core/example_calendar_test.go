package core_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	_ "time/tzdata" // so that the examples run where the system has no zones

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A quota of the calendar month, as contracts have it.
func ExamplePerMonth() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	limit := core.PerMonth(100_000, berlin).By(keyfuncs.User("userID")).Named("monthly")
	rule, err := limit.Rule()
	if err != nil {
		panic(err)
	}
	start, end, _ := rule.Period(time.Date(2026, time.March, 14, 12, 0, 0, 0, berlin).UnixMicro())
	fmt.Println(time.UnixMicro(start).In(berlin))
	fmt.Println(time.UnixMicro(end).In(berlin))
	// Output:
	// 2026-03-01 00:00:00 +0100 CET
	// 2026-04-01 00:00:00 +0200 CEST
}

// A day is over at midnight where the customers are.
func ExamplePerCalendarDay() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerCalendarDay(3, time.UTC).By(keyfuncs.User("userID")).Named("daily"),
	})
	for range 4 {
		d := limiter.AllowKey(context.Background(), "user:42", 1)
		fmt.Println(d.Allowed, d.Results()[0].Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// A text in another language says which days are used up. Go has the names of months in English only.
func ExampleDecision_Quota() {
	months := [...]string{"Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember"}
	day := func(t time.Time) string { return fmt.Sprintf("%d. %s", t.Day(), months[t.Month()-1]) }
	german := func(d core.Decision) string {
		q, ok := d.Quota()
		if !ok || !q.UsedUp {
			return fmt.Sprintf("Zu viele Anfragen. Bitte in %d Sekunden wieder.", d.RetryAfterSeconds())
		}
		days := "vom " + day(q.Start) + " bis " + day(q.LastDay())
		switch {
		case q.Period.Unit == store.CalendarDay:
			days = "am " + day(q.Start)
		case q.Period.Day == 1:
			days = "im " + months[q.Start.Month()-1]
		}
		return fmt.Sprintf("Die %d Anfragen Ihres Tarifs %s sind aufgebraucht; ab dem %s geht es weiter.", q.Units, days, day(q.End))
	}
	for _, limit := range []core.Limit{core.PerMonth(500, time.UTC), core.PerBillingMonth(500, 15, time.UTC), core.PerCalendarDay(500, time.UTC)} {
		limiter := core.Must(core.New(core.Config{
			Store:   memoryAt(time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)),
			Limits:  []core.Limit{limit.By(keyfuncs.Tenant("tenant")).Named("plan")},
			Details: map[string]func(core.Decision) string{"de": german},
		}))
		limiter.AllowKey(context.Background(), "tenant:acme", 500)
		denied := limiter.AllowKey(context.Background(), "tenant:acme", 1)
		body, language := denied.AppendProblem(nil, "de-CH, en;q=0.8")
		var problem struct{ Detail string }
		if err := json.Unmarshal(body, &problem); err != nil {
			panic(err)
		}
		fmt.Println(language, problem.Detail)
	}
	// Output:
	// de Die 500 Anfragen Ihres Tarifs im November sind aufgebraucht; ab dem 1. Dezember geht es weiter.
	// de Die 500 Anfragen Ihres Tarifs vom 15. November bis 14. Dezember sind aufgebraucht; ab dem 15. Dezember geht es weiter.
	// de Die 500 Anfragen Ihres Tarifs am 22. November sind aufgebraucht; ab dem 23. November geht es weiter.
}

// Who bought on the 31st is billed on the last day of shorter months.
func ExamplePerBillingMonth() {
	rule, err := core.PerBillingMonth(100_000, 31, time.UTC).Rule()
	if err != nil {
		panic(err)
	}
	at := time.Date(2028, time.January, 31, 0, 0, 0, 0, time.UTC).UnixMicro()
	for range 3 {
		start, end, _ := rule.Period(at)
		fmt.Println(time.UnixMicro(start).UTC().Format(time.DateOnly), "to", time.UnixMicro(end).UTC().Format(time.DateOnly))
		at = end
	}
	// Output:
	// 2028-01-31 to 2028-02-29
	// 2028-02-29 to 2028-03-31
	// 2028-03-31 to 2028-04-30
}
