package usage

import (
	"maps"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/integer"
)

// Forecast is where the use of a period leads if it goes on as on the last whole days of the period, seven at most: what is
// used already, and for the time that is left their mean. Days of which nothing is known count as days without use.
type Forecast struct {
	Used int64 `json:"used"` // units at the end of the period, rounded up; it may be above the limit

	// RunsOut is the day, such as 2026-11-29, on which nothing remains. Left out if something remains at the end.
	RunsOut string `json:"runs_out,omitempty"`
}

const (
	forecastDays = 7
	dayMicros    = int64(24 * time.Hour / time.Microsecond)
)

// byDay adds what was used on which day, and where that leads.
func (l *Limit) byDay(r *core.LimitResult, days map[string]int64) {
	for _, day := range slices.Sorted(maps.Keys(days)) {
		l.Days = append(l.Days, Day{day, days[day]})
	}
	if days == nil {
		return
	}
	now := time.UnixMicro(r.At).In(l.Period.Start.Location())
	first := l.Period.Start.Format(time.DateOnly)
	var sum, n int64
	for ; n < forecastDays; n++ {
		day := now.AddDate(0, 0, -int(n)-1).Format(time.DateOnly)
		if day < first {
			break
		}
		sum += days[day]
	}
	left := l.Period.End.UnixMicro() - r.At
	if n == 0 || left < 0 {
		return
	}
	sum = max(sum, 0)
	l.Forecast = &Forecast{Used: l.Used + integer.CeilMulDiv(sum, left, n*dayMicros)}
	if l.Forecast.Used < l.Limit || sum == 0 && l.Remaining > 0 {
		return
	}
	after := int64(0)
	if l.Remaining > 0 {
		after = min(integer.CeilMulDiv(l.Remaining, n*dayMicros, sum), left-1)
	}
	l.Forecast.RunsOut = now.Add(time.Duration(after) * time.Microsecond).Format(time.DateOnly)
}
