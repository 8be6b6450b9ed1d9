package service

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
)

// passedOn are the headers that a decision may set, in canonical form, with the spelling in answers.
var passedOn = func() (all [][2]string) {
	for _, name := range core.ExposeHeaders() {
		all = append(all, [2]string{http.CanonicalHeaderKey(name), name})
	}
	return append(all, [2]string{"Content-Language", "Content-Language"})
}()

// appendVerdict appends what a caller needs to act on a decision, as the first fields of an object without braces.
func appendVerdict(dst []byte, d *core.Decision, delay time.Duration) []byte {
	dst = append(dst, `"allowed":`...)
	dst = strconv.AppendBool(dst, d.Allowed)
	dst = appendString(dst, "reason", d.Reason.String())
	dst = appendInt(dst, "status", int64(statusOf(d)))
	if d.RetryAfter > 0 {
		dst = appendInt(dst, "retry_after", d.RetryAfterSeconds())
		dst = appendMillis(dst, "retry_after_ms", d.RetryAfter)
	}
	if delay > 0 {
		dst = appendMillis(dst, "delay_ms", delay)
	}
	return dst
}

// appendDecision appends a decision as the fields of an object without braces. It sets the headers in scratch, too, since a
// decision writes its headers to a map and nowhere else.
func appendDecision(dst []byte, q *compose.Ask, scratch adapter.HeaderMap) []byte {
	d := &q.Decision
	dst = appendVerdict(dst, d, q.Delay)
	if q.AtMost {
		dst = appendInt(dst, "granted", q.Granted)
	}
	if b, ok := d.Binding(); ok {
		dst = appendString(dst, "limit", b.Rule.Name)
	}
	if what := d.Missing(); what != "" {
		dst = appendString(dst, "missing", what)
	}
	if what := d.Ambiguous(); what != "" {
		dst = appendString(dst, "ambiguous", what)
	}
	if d.Err != nil {
		dst = appendBool(dst, "outage", true)
	}
	if q.Unsettled && !q.Hold { // a reservation is settled by its token
		dst = appendBool(dst, "unsettled", true)
	}
	if version := d.Version(); version != "" {
		dst = appendString(dst, "version", version)
	}
	dst = append(appendField(dst, "limits"), '[')
	for i, results := 0, d.Results(); i < len(results); i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendResult(dst, &results[i], d.Class(results[i].Rule.Name), isEstimate(q, results[i].Rule.Name))
	}
	dst = append(dst, ']')
	if len(q.Warnings) > 0 {
		dst = appendWarnings(dst, q.Warnings)
	}
	if !d.Allowed {
		language := ""
		if r := q.Request; r != nil {
			language, _ = r.Header("Accept-Language", 0)
		}
		dst = appendField(dst, "problem")
		if dst, language = d.AppendProblem(dst, language); language != "" {
			scratch.Set("Content-Language", language)
		}
	}
	d.SetHeaders(scratch)
	return appendHeaders(dst, scratch)
}

func appendWarnings(dst []byte, all []core.Warning) []byte {
	dst = append(appendField(dst, "warnings"), '[')
	for i := range all {
		w := &all[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(append(dst, `{"limit":`...), w.Limit)
		dst = strconv.AppendFloat(appendField(dst, "level"), w.Level, 'g', -1, 64)
		dst = appendInt(appendInt(dst, "used", w.Used), "burst", w.Burst)
		if w.Key != "" {
			dst = appendString(dst, "key", w.Key)
		}
		if w.Soft {
			dst = appendBool(dst, "soft", true)
		}
		if w.Shadow {
			dst = appendBool(dst, "shadow", true)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// statusOf returns what an application answers: 200 stands for whatever the handler answers.
func statusOf(d *core.Decision) int {
	if d.Allowed {
		return http.StatusOK
	}
	return d.Status()
}

func appendHeaders(dst []byte, from adapter.HeaderMap) []byte {
	dst = append(appendField(dst, "headers"), '{')
	before := len(dst)
	for _, name := range passedOn {
		values := from[name[0]]
		if len(values) == 0 {
			continue
		}
		if len(dst) > before {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name[1]...), '"', ':')
		dst = appendText(dst, values[0])
	}
	return append(dst, '}')
}

// isEstimate reports whether a limit was charged an estimate, of a question that holds what it charges.
func isEstimate(q *compose.Ask, limit string) bool {
	for i := range q.Held {
		if q.Held[i].Estimate && q.Held[i].Rule.Name == limit {
			return true
		}
	}
	return false
}

func appendResult(dst []byte, r *core.LimitResult, class string, estimate bool) []byte {
	dst = append(dst, `{"name":`...)
	dst = appendText(dst, r.Rule.Name)
	dst = appendBool(dst, "allowed", r.Allowed)
	dst = appendBool(dst, "charged", r.Charged)
	dst = appendPart(dst, r, class)
	if !r.Allowed {
		dst = appendString(dst, "reason", r.DenialReason().String())
	}
	dst = appendString(dst, "algorithm", r.Rule.Algorithm.String())
	dst = appendInt(dst, "quota", r.Rule.Quota)
	if r.Rule.Algorithm == store.Calendar {
		dst = appendPeriod(dst, r)
	} else {
		dst = appendMillis(dst, "window_ms", r.Rule.Window)
	}
	dst = appendInt(dst, "burst", r.Rule.Burst)
	if r.Rule.Algorithm == store.TokenBucket && r.Rule.Whole != r.Rule.Burst { // others hold their quota
		dst = appendInt(dst, "whole", r.Rule.Whole)
	}
	if r.Rule.Wait > 0 {
		dst = appendMillis(dst, "wait_ms", r.Rule.Wait)
	}
	dst = appendInt(dst, "remaining", r.Remaining)
	if r.Standing != store.Undivided {
		dst = appendInt(appendString(dst, "standing", r.Standing.String()), "share", r.Share)
	}
	dst = appendMillis(dst, "effective_window_ms", r.Window)
	dst = appendMillis(dst, "reset_ms", r.ResetAfter)
	if r.RetryAfter > 0 {
		dst = appendMillis(dst, "retry_after_ms", r.RetryAfter)
	}
	if estimate {
		dst = appendBool(dst, "estimate", true)
	}
	if r.Repeated {
		dst = appendBool(dst, "repeated", true)
	}
	if r.Blocked {
		dst = appendBool(dst, "blocked", true)
	}
	if r.Rule.Soft > 0 {
		dst = appendInt(dst, "soft", r.Rule.Soft)
	}
	if r.Soft {
		dst = appendBool(dst, "over_soft", true)
	}
	if r.WarnLevel > 0 {
		dst = strconv.AppendFloat(appendField(dst, "warning"), r.WarnLevel, 'g', -1, 64)
	}
	return append(dst, '}')
}

// appendPart appends which part a limit has in the decision, and the class of the request under it.
func appendPart(dst []byte, r *core.LimitResult, class string) []byte {
	if r.Shadow {
		dst = appendBool(dst, "shadow", true)
	}
	if r.Or {
		dst = appendBool(dst, "or", true)
	}
	if r.PassedOver {
		dst = appendBool(dst, "passed_over", true)
	}
	if r.Hidden {
		dst = appendBool(dst, "hidden", true)
	}
	if class != "" {
		dst = appendString(dst, "class", class)
	}
	return dst
}

// appendPeriod appends what a window of the calendar is, and when it was looked at.
func appendPeriod(dst []byte, r *core.LimitResult) []byte {
	of := &r.Rule.Calendar
	unit := "month"
	if of.Unit == store.CalendarDay {
		unit = "day"
	} else {
		dst = appendInt(dst, "month_day", int64(of.Day))
	}
	dst = appendString(dst, "period", unit)
	dst = appendString(dst, "zone", of.Location.String())
	return appendInt(dst, "at_us", r.At)
}

// appendAnswer appends the answer to a call: that of its check, or those of its checks and what they say
// together.
func appendAnswer(dst []byte, c *call, asks []compose.Ask, headers adapter.HeaderMap) []byte {
	if !c.together {
		return append(appendDecision(append(dst, '{'), &asks[0], headers), '}')
	}
	var delay time.Duration
	for i := range asks {
		delay = max(delay, asks[i].Delay)
	}
	dst = appendVerdict(append(dst, '{'), leading(asks), delay)
	dst = append(appendField(dst, "checks"), '[')
	for i := range asks {
		if i > 0 {
			dst = append(dst, ',')
		}
		own := make(adapter.HeaderMap, 4) // each check shows its own headers, and the response those of all
		dst = append(appendDecision(append(dst, '{'), &asks[i], own), '}')
		asks[i].Decision.SetHeaders(headers)
	}
	dst = append(dst, ']')
	return append(appendHeaders(dst, headers), '}')
}

// leading returns the decision that says what becomes of all: the one that denies, if one does, and waits longest.
func leading(asks []compose.Ask) *core.Decision {
	first := &asks[0].Decision
	for i := range asks {
		if d := &asks[i].Decision; outranks(d, first) {
			first = d
		}
	}
	return first
}

// outranks reports whether a decision says more about several than another: a denial by its own limits,
// and among these one that no wait helps, or the longest wait.
func outranks(d, than *core.Decision) bool {
	own := func(d *core.Decision) bool { return !d.Allowed && d.Reason != core.ReasonDeniedTogether }
	switch {
	case own(d) != own(than):
		return own(d)
	case !own(d):
		return false
	case (d.RetryAfter == 0) != (than.RetryAfter == 0):
		return d.RetryAfter == 0
	}
	return d.RetryAfter > than.RetryAfter
}
