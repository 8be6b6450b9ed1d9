package limittext_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/limittext"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

var words = limittext.Words{{"sliding", "window", store.SlidingWindow}, {"log", "", store.SlidingLog}, {"bucket", "", store.TokenBucket}}

// What a text says is read from it, and written as the same. What limits are made of it, and what is said of texts that are
// none, is tested in core.
func TestTexts(t *testing.T) {
	t.Parallel()
	second, number := time.Second, int64(3)
	for text, want := range map[string]limittext.Text{
		"100/minute":                   {Quota: 100, Window: time.Minute},
		"100/1h30m burst 3":            {Quota: 100, Window: 90 * time.Minute, Burst: &number},
		"100/day sliding jitter":       {Quota: 100, Window: 24 * time.Hour, Algorithm: store.SlidingWindow, Jitter: true},
		"100/day soft 3 debt 3":        {Quota: 100, Window: 24 * time.Hour, Soft: &number, Debt: &number},
		"100/day from first use":       {Quota: 100, Window: 24 * time.Hour, FromUse: true},
		"100/day log soft 3":           {Quota: 100, Window: 24 * time.Hour, Algorithm: store.SlidingLog, Soft: &number},
		"100/second burst 3 leaky 1s":  {Quota: 100, Window: time.Second, Burst: &number, Leaky: &second},
		"100/second bucket wait 1s":    {Quota: 100, Window: time.Second, Algorithm: store.TokenBucket, Wait: &second},
		"100/day UTC":                  {Quota: 100, Calendar: store.Period{Unit: store.CalendarDay, Location: time.UTC}},
		"100/month from 15 UTC soft 3": {Quota: 100, Calendar: store.Period{Unit: store.CalendarMonth, Day: 15, Location: time.UTC}, Soft: &number},
		"concurrent 100 lease 1s":      {Quota: 100, Concurrent: true, Lease: &second},
	} {
		check.Equal(t, "written", words.Write(&want), text)
		got := must.Get(words.Parse(text))(t)
		check.Equal(t, text+", read and written", words.Write(&got), text)
		same := func(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
		check.All(t, text, []any{got.Quota, got.Window, got.Calendar, got.Algorithm, got.Concurrent, got.Jitter, got.FromUse, same(got.Burst, want.Burst), same(got.Soft, want.Soft), same(got.Debt, want.Debt)},
			want.Quota, want.Window, want.Calendar, want.Algorithm, want.Concurrent, want.Jitter, want.FromUse, true, true, true)
	}
}
