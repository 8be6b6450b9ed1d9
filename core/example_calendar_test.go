package core_test

import (
	"context"
	"fmt"
	"time"
	_ "time/tzdata" // so that the examples run where the system has no zones

	"github.com/weblimit/weblimit/core"
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
