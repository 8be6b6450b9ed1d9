package core

import (
	"context"
	"log/slog"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Reason says how a decision came about.
type Reason uint8

// The reasons.
const (
	ReasonUndecided      Reason = iota // the zero Decision
	ReasonWithinLimit                  // allowed: every limit had room
	ReasonLimitExceeded                // denied: at least one limit had not
	ReasonInvalidCost                  // denied: the cost was negative
	ReasonMissingKey                   // denied by policy: the request lacks a limit's key
	ReasonBypassed                     // allowed: a bypass of the configuration; no limit was asked
	ReasonShadowed                     // allowed: only limits in shadow mode had no room
	ReasonOutageAllowed                // allowed by policy: the store did not answer
	ReasonOutageDenied                 // denied by policy: the store did not answer
	ReasonOutageLocal                  // decided in this process: the store did not answer
	ReasonCachedDenial                 // denied: the store did so a moment ago, and was not asked again
	ReasonDelayed                      // allowed: after it waited for its turn
	ReasonCanceled                     // denied: its context ended while it waited for its turn
	ReasonBlocked                      // denied: a limit was exceeded again and again; see Limit.Penalty
	ReasonAmbiguousKey                 // denied: the request has a limit's key several times; see Decision.Ambiguous
	ReasonNeverFits                    // denied: it costs more than a limit ever has room for; waiting can't help
	ReasonDeniedTogether               // denied: it was decided together with others, of which one was denied
)

var reasons = [...]string{
	ReasonUndecided:      "undecided",
	ReasonWithinLimit:    "within limit",
	ReasonLimitExceeded:  "limit exceeded",
	ReasonInvalidCost:    "invalid cost",
	ReasonMissingKey:     "missing key",
	ReasonBypassed:       "bypassed",
	ReasonShadowed:       "shadowed",
	ReasonOutageAllowed:  "outage allowed",
	ReasonOutageDenied:   "outage denied",
	ReasonOutageLocal:    "outage local",
	ReasonCachedDenial:   "cached denial",
	ReasonDelayed:        "delayed",
	ReasonCanceled:       "canceled",
	ReasonBlocked:        "blocked",
	ReasonAmbiguousKey:   "ambiguous key",
	ReasonNeverFits:      "never fits",
	ReasonDeniedTogether: "denied together",
}

// String returns the reason in words, for logs and metrics.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown reason"
}

// Decision is what all limits of a limiter together say to one request. It is a value, and
// nothing in it changes later, so it can be kept. A Decision that Allow, AllowKey or FromContext
// returns is final.
type Decision struct {
	Allowed    bool
	Reason     Reason
	binding    int16         // index into the results, -1 if there is none
	count      int16         // of the results
	RetryAfter time.Duration // when denied: how long until the same request would be allowed; 0 if waiting can't help
	Err        error         // the store's error, if the reason is an outage

	limiter *Limiter
	held    *reservation // what may still change after the request, or nil
	one     [1]LimitResult
	many    []LimitResult // instead of one, if there are more
	what    string        // of an ambiguous or missing key: what is repeated or missing
}

// LimitResult is the result of one limit for one request.
type LimitResult struct {
	Rule *Rule // the limit's name and numbers; for reading
	Result
	Shadow    bool    // judged, and not enforced
	Hidden    bool    // clients are not told of the limit; see Limit.Hidden
	Or        bool    // an alternative to the limit of the result before: see First
	Soft      bool    // charged, and more is used than the soft limit
	class     uint8   // of the request from 1 on, if the limit has classes; see Decision.Class
	Reason    Reason  // why the limit denies without asking the store, such as ReasonMissingKey; else ReasonUndecided
	WarnLevel float64 // the highest level of WarnAt that was reached, or 0
}

// DenialReason returns why the limit denied the request, or would have denied it in shadow mode: the
// Reason that the decision has if no other limit matters. It means nothing for a limit that allowed
// the request.
func (r *LimitResult) DenialReason() Reason {
	switch {
	case r.Reason != ReasonUndecided:
		return r.Reason
	case r.RetryAfter == 0:
		return ReasonNeverFits
	case r.Blocked:
		return ReasonBlocked
	case r.Cached:
		return ReasonCachedDenial
	}
	return ReasonLimitExceeded
}

// Results returns the results of the limits that applied to the request, in the order of
// Config.Limits. It is empty if no limit was asked. Last come limits in shadow mode that would
// have denied the request without asking the store, for the Reason in their result.
func (d *Decision) Results() []LimitResult {
	if d.count > 1 {
		return d.many
	}
	return d.one[:d.count]
}

// Binding returns the result that matters most to the client: for a denial, that of the limit
// that takes longest to allow the request, otherwise that with the fewest units remaining.
// Limits in shadow mode are left out. It returns false if there is none.
func (d *Decision) Binding() (LimitResult, bool) {
	if d.limiter == nil || d.binding < 0 {
		return LimitResult{}, false
	}
	return d.Results()[d.binding], true
}

// Ambiguous names the part of the request that is there more than once although a key needs one,
// such as "X-API-Key header", if the reason is [ReasonAmbiguousKey]. It holds nothing that
// the client sent. It is "" for other reasons.
func (d *Decision) Ambiguous() string {
	if d.Reason != ReasonAmbiguousKey {
		return ""
	}
	return d.what
}

// refuse denies a request because of a limit, without asking the store.
func (d *Decision) refuse(reason Reason, l *limit, r keyfuncs.Request, c *call) {
	d.Reason, d.count = reason, 1
	d.one[0].Rule, d.one[0].Reason, d.one[0].Hidden = &l.rule, reason, l.hidden
	switch reason {
	case ReasonAmbiguousKey:
		if d.what = l.repeated(r); d.what == "" {
			d.what = c.reading.Repeated()
		}
	case ReasonMissingKey:
		d.what = missingOf(l.key.Lacks(r))
	}
}

// sumUp decides by the results of a call. Before, d is zero except for limiter, Err, binding,
// which is -1, and the room in many.
func (d *Decision) sumUp(ctx context.Context, c *call) {
	n := len(c.results) + len(c.refused)
	d.count = int16(n)
	if n > 1 {
		if cap(d.many) < n {
			d.many = make([]LimitResult, n)
		}
		d.many = d.many[:n:n]
	}
	results := d.Results()
	for i := range c.results {
		r, check := &results[i], &c.checks[i]
		r.Rule, r.Result, r.Shadow, r.Or, r.Reason = check.Rule, c.results[i], check.Shadow, check.Or, ReasonUndecided
		r.Hidden, r.class = c.limits[i].hidden, c.classOf(c.limits[i])
		if check.Share != nil {
			r.ofShare(check)
		}
		d.limiter.warn(ctx, c.limits[i], check.Key, check.Cost, r, c.asker)
	}
	for i, refused := range c.refused {
		results[len(c.results)+i] = LimitResult{Rule: &refused.limit.rule, Shadow: true, Hidden: refused.limit.hidden, Reason: refused.reason}
	}
	d.conclude()
}

// conclude decides by the results in d.
func (d *Decision) conclude() {
	d.Allowed = true
	shadowed := false // a limit in shadow mode would have denied the request
	results := d.Results()
	hopeless := false // a denying limit that no wait satisfies
	for i := range results {
		r := &results[i]
		if r.Rule.Soft > 0 {
			r.Soft = r.Charged && r.used() > r.Rule.Soft
		}
		switch {
		case r.PassedOver:
		case r.Shadow:
			shadowed = shadowed || !r.Allowed
		case r.Allowed:
			if d.Allowed && (d.binding < 0 || r.Remaining < results[d.binding].Remaining) {
				d.binding = int16(i)
			}
		case r.RetryAfter == 0:
			if !hopeless {
				d.binding = int16(i)
			}
			d.Allowed, hopeless = false, true
		default:
			if !hopeless && (d.Allowed || r.RetryAfter > d.RetryAfter) {
				d.binding, d.RetryAfter = int16(i), r.RetryAfter
			}
			d.Allowed = false
		}
	}
	switch {
	case hopeless:
		d.Reason = ReasonNeverFits
	case !d.Allowed && results[d.binding].Blocked:
		d.Reason = ReasonBlocked
	case !d.Allowed && results[d.binding].Cached:
		d.Reason = ReasonCachedDenial
	case !d.Allowed:
		d.Reason = ReasonLimitExceeded
	case shadowed:
		d.Reason = ReasonShadowed
	default:
		d.Reason = ReasonWithinLimit
	}
	if hopeless {
		d.RetryAfter = 0
	}
}

// Version returns the version of the configuration that decided: Config.Version, or that of a policy
// file. It is "" if the configuration has none.
func (d *Decision) Version() string {
	if d.limiter == nil {
		return ""
	}
	if d.held != nil && d.held.elsewhere != nil && d.held.elsewhere.version != "" {
		return d.held.elsewhere.version
	}
	return d.limiter.version
}

// LogValue makes decisions readable in structured logs. It never holds a key.
func (d Decision) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs, slog.Bool("allowed", d.Allowed), slog.String("reason", d.Reason.String()))
	if b, ok := d.Binding(); ok {
		attrs = append(attrs, slog.String("limit", b.Rule.Name), slog.Int64("remaining", b.Remaining))
		if class := d.classOf(&b); class != "" {
			attrs = append(attrs, slog.String("class", class))
		}
		if b.Standing != store.Undivided {
			attrs = append(attrs, slog.String("standing", b.Standing.String()), slog.Int64("share", b.Share))
		}
	}
	if what := d.Ambiguous(); what != "" {
		attrs = append(attrs, slog.String("ambiguous", what))
	}
	if what := d.Missing(); what != "" {
		attrs = append(attrs, slog.String("missing", what))
	}
	if delay := d.Delay(); delay > 0 {
		attrs = append(attrs, slog.Duration("delay", delay))
	}
	if d.RetryAfter > 0 {
		attrs = append(attrs, slog.Duration("retry_after", d.RetryAfter))
	}
	if version := d.Version(); version != "" {
		attrs = append(attrs, slog.String("version", version))
	}
	if d.Err != nil {
		attrs = append(attrs, slog.String("error", d.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// Delay returns how long the request waited for its turn. It is 0 if it did not wait.
func (d *Decision) Delay() time.Duration {
	if d.held == nil {
		return 0
	}
	return d.held.delayed
}

// asked reports whether the store was asked, so that there are results to show.
func (d *Decision) asked() bool {
	return len(d.Results()) > 0 && d.Reason != ReasonMissingKey && d.Reason != ReasonAmbiguousKey && d.Reason != ReasonInvalidCost
}

// RetryAfterSeconds returns RetryAfter as the Retry-After header has it, for a body of your own:
// in whole seconds, rounded up, and at least 1. It is 0 if the decision is no denial, or if
// waiting can't help; there is no header then. The header has the longest wait of all limiters that
// the request passed, and this is the wait of one.
func (d *Decision) RetryAfterSeconds() int64 {
	if d.Allowed || d.RetryAfter == 0 {
		return 0
	}
	return max(seconds(d.RetryAfter), 1)
}
