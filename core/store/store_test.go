package store_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

func TestNumbersThatCanNotWork(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]store.Numbers{
		"unknown algorithm 0":             {Quota: 1, Window: time.Second},
		"unknown algorithm 6":             {Algorithm: 6, Quota: 1, Window: time.Second},
		"unknown algorithm 7":             {Algorithm: 7, Quota: 1, Window: time.Second},
		"quota must be at least 1, got 0": {Algorithm: store.TokenBucket, Window: time.Second},
		"a class of requests can't have 5 of 4 units: Burst must be at most Whole":    {Algorithm: store.TokenBucket, Quota: 1, Burst: 5, Whole: 4, Window: time.Second},
		"a burst belongs to a token bucket, not to a fixed window":                    {Algorithm: store.FixedWindow, Quota: 1, Burst: 5, Window: time.Second},
		"unknown unit of calendar windows 0":                                          {Algorithm: store.Calendar, Quota: 1, Calendar: store.Period{Location: time.UTC}},
		"a token bucket in which requests queue has only one class of requests":       {Algorithm: store.TokenBucket, Quota: 4, Burst: 2, Whole: 4, Wait: time.Second, Window: time.Second},
		"OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got 1ms": {Algorithm: store.TokenBucket, Quota: 1, Window: time.Second, Once: time.Millisecond},
	} {
		if _, err := store.NewRule("n", n); err == nil || err.Error() != `weblimit: limit "n": `+want {
			t.Errorf("got error\n\t%v, want\n\t%s", err, want)
		}
	}
}

// What is derived from a rule by its Numbers is the rule again, defaults and all.
func TestARuleOfARulesNumbersIsThatRule(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]store.Numbers{
		"bucket":   {Algorithm: store.TokenBucket, Quota: 7, Window: time.Minute, Wait: time.Second, Block: store.Block{After: 3, Within: time.Hour, For: time.Minute}},
		"lower":    {Algorithm: store.TokenBucket, Quota: 7, Window: time.Minute, Burst: 5, Whole: 14, Soft: 3, Once: time.Hour},
		"sliding":  {Algorithm: store.SlidingWindow, Quota: 7, Window: time.Minute, Jitter: true},
		"calendar": {Algorithm: store.Calendar, Quota: 7, Calendar: store.Period{Unit: store.CalendarMonth, Day: 31, Location: storetest.Zone("Europe/Berlin")}},
	} {
		first := must.Get(store.NewRule(name, n))(t)
		if again, err := store.NewRule(name, first.Numbers); err != nil || again != first {
			t.Errorf("%s: got %+v and %v, want %+v", name, again, err, first)
		}
	}
}
