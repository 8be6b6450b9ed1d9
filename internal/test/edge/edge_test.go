package edge

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestEdges(t *testing.T) {
	t.Parallel()
	const near = 2 * time.Minute
	for text, want := range map[string]struct{ month, day, hour time.Duration }{
		"2026-11-30T23:57:59Z":      {0, 0, 0},
		"2026-11-30T23:58:00Z":      {near, near, near},
		"2026-12-31T23:59:59Z":      {time.Second, time.Second, time.Second},
		"2027-03-01T00:59:00+01:00": {time.Minute, time.Minute, time.Minute},
		"2027-03-01T00:00:00Z":      {0, 0, 0},
		"2028-02-28T23:59:00Z":      {0, time.Minute, time.Minute},
		"2028-02-28T22:59:00Z":      {0, 0, time.Minute},
	} {
		now := must.Get(time.Parse(time.RFC3339, text))(t)
		for name, got := range map[string][2]time.Duration{
			"month": {untilMonth(now, near), want.month},
			"day":   {untilWindow(now, 24*time.Hour, near), want.day},
			"hour":  {untilWindow(now, time.Hour, near), want.hour},
		} {
			if got[1] > 0 {
				got[1] += time.Millisecond
			}
			check.Equal(t, fmt.Sprintf("%s: %s", text, name), got[0], got[1])
		}
	}
}
