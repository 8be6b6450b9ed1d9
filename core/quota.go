package core

import (
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// The fields of the dialect XQuota, in canonical form.
const (
	headerQuotaLimit     = "X-Quota-Limit"
	headerQuotaRemaining = "X-Quota-Remaining"
	headerQuotaReset     = "X-Quota-Reset"
)

// Quota is what a decision says about a calendar limit, such as [PerMonth], in the period in
// which it was made; see [Decision.Quota].
type Quota struct {
	Name      string // of the limit
	Units     int64  // that can be used in the period
	Soft      int64  // units of these from which on a request is over the soft limit, such as overage; 0 for none
	Remaining int64  // of Units

	// Start and End are the first instant of the period and that of the next one, in the time
	// zone of the limit.
	Start, End time.Time

	// Period says whether periods are days or months, and on which day months begin.
	Period store.Period

	// UsedUp is true if the request was denied because it costs more than Remaining.
	UsedUp bool

	// Requests is true if each request that the limiter decides costs one unit of this limit, so
	// that its units can be called requests.
	Requests bool

	// Personal is true if the limit's key is a user, a tenant or an API key. Otherwise clients may
	// share the units: those with one address, those without a key, or all of them.
	Personal bool
}

// LastDay returns an instant of the last day of the period.
func (q *Quota) LastDay() time.Time { return q.End.Add(-time.Microsecond) }

// Quota returns what the decision says about its calendar limit, for texts in other languages
// and pages of one's own. Of several it is the one that denies, or else the one with the
// fewest units remaining. It returns false if no calendar limit applied that is enforced and not hidden, and in an outage,
// when nothing is known of the use in the period.
func (d *Decision) Quota() (Quota, bool) {
	r := d.calendarResult()
	if r == nil {
		return Quota{}, false
	}
	start, end := r.Rule.PeriodOf(&r.Result)
	zone := r.Rule.Calendar.Location
	q := Quota{
		Name: r.Rule.Name, Units: r.Rule.Burst, Soft: r.Rule.Soft, Remaining: max(r.Remaining, 0), Period: r.Rule.Calendar,
		Start: time.UnixMicro(start).In(zone), End: time.UnixMicro(end).In(zone),
		UsedUp: !r.Allowed && !r.Blocked && r.RetryAfter > 0,
	}
	for i := range d.limiter.limits {
		if l := &d.limiter.limits[i]; l.rule.Name == q.Name {
			q.Requests = l.cost == 1 && l.costBy == nil && !l.estimate
			q.Personal = isPersonal(l.key.Kind())
		}
	}
	return q, true
}

// calendarResult returns the result that [Decision.Quota] is about, or nil.
func (d *Decision) calendarResult() *LimitResult {
	if d.limiter == nil || d.Err != nil || !d.asked() {
		return nil
	}
	results := d.Results()
	if d.binding >= 0 && results[d.binding].told() && results[d.binding].Rule.Algorithm == store.Calendar {
		return &results[d.binding]
	}
	var near *LimitResult
	for i := range results {
		r := &results[i]
		if !r.told() || r.Rule.Algorithm != store.Calendar {
			continue
		}
		if near == nil || near.Allowed && !r.Allowed || near.Allowed == r.Allowed && r.Remaining < near.Remaining {
			near = r
		}
	}
	return near
}

// setQuota writes the dialect XQuota. Denials by other limits leave what an outer limiter has
// written: the units that it tells of are still there in the period.
func (d *Decision) setQuota(h Header) {
	r := d.calendarResult()
	if r == nil {
		return
	}
	left := max(r.Remaining, 0)
	if r.Allowed {
		if before, err := strconv.ParseInt(h.Get(headerQuotaRemaining), 10, 64); err == nil && before <= left {
			return
		}
	}
	h.Set(headerQuotaLimit, decimal(r.Rule.Burst))
	h.Set(headerQuotaRemaining, decimal(left))
	_, end := r.Rule.PeriodOf(&r.Result)
	h.Set(headerQuotaReset, decimal(end/1e6))
}

// isPersonal reports whether all keys of a kind belong to one client each; see [keyfuncs.Func.Kind].
func isPersonal(kind string) bool {
	personal := false
	for part := range strings.FieldsFuncSeq(kind, func(c rune) bool { return c == '(' || c == ')' || c == ',' }) {
		part, _, _ = strings.Cut(part, "/")
		switch part {
		case "user", "tenant", "apikey":
			personal = true
		case "ip", "all":
			return false
		}
	}
	return personal
}

// appendUsedUp appends the detail of a denial by a calendar limit, in English, without quotes. It
// returns false if another limit has the longer wait, and for a class of requests that may not use
// the whole quota.
func (d *Decision) appendUsedUp(dst []byte) ([]byte, bool) {
	r := d.calendarResult()
	if r == nil || d.binding < 0 || r != &d.Results()[d.binding] || r.Rule.Burst < r.Rule.Whole {
		return dst, false
	}
	q, _ := d.Quota()
	if !q.UsedUp {
		return dst, false
	}
	if q.Personal {
		dst = append(dst, "Your plan's "...)
	} else {
		dst = append(dst, "The "...)
	}
	dst = appendGrouped(dst, q.Units)
	if q.Requests && q.Remaining == 0 {
		dst = append(dst, " request"...)
	} else {
		dst = append(dst, " unit"...)
	}
	if q.Units == 1 {
		dst = append(q.appendDays(append(dst, " for "...)), " is used up"...)
	} else {
		dst = append(q.appendDays(append(dst, "s for "...)), " are used up"...)
	}
	if q.Remaining > 0 {
		dst = append(appendGrouped(append(dst, " but for "...), q.Remaining), ", fewer than the request costs"...)
	}
	dst = appendDay(append(dst, "; the next period begins on "...), q.End)
	return append(dst, '.'), true
}

// appendDays appends the days of a period in English: "November", "15 November to 14 December" or
// "22 November".
func (q *Quota) appendDays(dst []byte) []byte {
	switch {
	case q.Period.Unit == store.CalendarDay:
		return appendDay(dst, q.Start)
	case q.Period.Day == 1:
		return append(dst, q.Start.Month().String()...)
	}
	return appendDay(append(appendDay(dst, q.Start), " to "...), q.LastDay())
}

func appendDay(dst []byte, t time.Time) []byte {
	dst = strconv.AppendInt(dst, int64(t.Day()), 10)
	return append(append(dst, ' '), t.Month().String()...)
}

// appendGrouped appends n, which is not negative, with commas between groups of three digits.
func appendGrouped(dst []byte, n int64) []byte {
	if n < 1000 {
		return strconv.AppendInt(dst, n, 10)
	}
	dst = append(appendGrouped(dst, n/1000), ',')
	rest := n % 1000
	return append(dst, byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}
