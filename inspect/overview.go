package inspect

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/metrics/top"
)

const (
	overviewFor     = time.Second // how long an overview is good for, however many look
	overviewLimits  = 60          // limits in an overview, the most denied first
	overviewClients = 20          // clients in each of its lists
	recent          = 10          // seconds that the rates per second are the mean of
	// An instance publishes at least each minute. One that is silent for longer holds nothing up.
	freshInstance = 15 * time.Second
)

// share is the part of clients for which a quota is suggested.
const share = 0.995

// overview is what the page shows without being asked, for all who look.
type overview struct {
	At        time.Time      `json:"at"`
	Version   string         `json:"version"`
	Instance  string         `json:"instance"` // which answers
	Instances []instanceJSON `json:"instances"`
	Silent    []silentJSON   `json:"silent"`            // instances that were there some minutes ago
	Partial   string         `json:"partial,omitempty"` // why instances are missing
	Health    healthJSON     `json:"store"`
	Limits    []limitJSON    `json:"limits"`
	More      int            `json:"more_limits"` // that Limits leaves out
	Uncounted int64          `json:"uncounted"`   // decisions of limits beyond top.Config.Limits
	Denied    []clientJSON   `json:"denied"`      // the most denied clients of all limits, of the last hour
	WouldDeny []clientJSON   `json:"would_deny"`  // the same of limits in shadow mode
	Near      []clientJSON   `json:"near"`        // those nearest to a limit, and not denied

	snapshot *top.Snapshot
	limits   []limitJSON // all of them
}

// session is what an overview says to one operator.
type session struct {
	*overview
	Actor       string `json:"actor"`
	MayAct      bool   `json:"may_act"`
	MaxBlockSec int64  `json:"max_block_seconds"`
}

type limitJSON struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Quota     int64  `json:"quota"`
	Burst     int64  `json:"burst"`
	WindowMS  int64  `json:"window_ms"`
	Window    string `json:"window"`
	Numbers   string `json:"numbers"` // in words: "300 per 1m, burst 50"
	Keys      string `json:"keys,omitempty"`
	Shadow    bool   `json:"shadow"`
	CanBlock  bool   `json:"can_block"`
	Penalized bool   `json:"penalized"` // it blocks repeat offenders, so no number is suggested for it
	Here      bool   `json:"here"`      // this process has the limit, so that it can act on it

	Versions []string `json:"versions,omitempty"` // of the policy by which instances decide

	PerSecond ratesJSON       `json:"per_second"` // the mean of the last ten seconds
	Minute    countsJSON      `json:"minute"`
	Seconds   *seriesJSON     `json:"seconds,omitempty"`
	Minutes   *seriesJSON     `json:"minutes,omitempty"`
	Suggest   *suggestionJSON `json:"suggest,omitempty"`
}

type ratesJSON struct {
	Allowed   float64 `json:"allowed"`
	Denied    float64 `json:"denied"`
	WouldDeny float64 `json:"would_deny"`
}

type countsJSON struct {
	Requests  int64 `json:"requests"`
	Denied    int64 `json:"denied"`
	WouldDeny int64 `json:"would_deny"`
}

type seriesJSON struct {
	StepMS    int64     `json:"step_ms"`
	Start     time.Time `json:"start"`
	Allowed   []int64   `json:"allowed"`
	Denied    []int64   `json:"denied"`
	WouldDeny []int64   `json:"would_deny"`
}

type suggestionJSON struct {
	Share    float64 `json:"share"`
	Quota    int64   `json:"quota"`
	Low      int64   `json:"low"`
	High     int64   `json:"high"`
	WindowMS int64   `json:"window_ms"`
	Clients  int64   `json:"clients"`
	Within   float64 `json:"within"` // the share of clients that stay within the limit's present quota
}

func (h *Handler) overview(ctx context.Context) (*overview, error) {
	return h.overviews.get(ctx, h.config.Timeout, h.makeOverview)
}

func (h *Handler) makeOverview(ctx context.Context) (*overview, time.Duration) {
	snapshot, err := h.config.Top.Collect(ctx)
	registry := h.config.Store.Registry()
	o := &overview{
		At: time.Now(), Version: core.Version(), Instance: h.config.Top.Instance(), Instances: []instanceJSON{},
		Partial: missingInstances(err), Health: h.health.now(registry), Uncounted: snapshot.Uncounted, snapshot: snapshot,
	}
	for i := range snapshot.Instances {
		o.Instances = append(o.Instances, instanceOf(&snapshot.Instances[i]))
	}
	o.Silent = h.instances.note(o.At, snapshot.Instances, err == nil)
	until := completeUntil(snapshot, o.At)
	for _, d := range registry.Declarations() {
		o.limits = append(o.limits, declared(d))
	}
	for i := range snapshot.Limits {
		counted := &snapshot.Limits[i]
		at := slices.IndexFunc(o.limits, func(l limitJSON) bool { return l.Name == counted.Name })
		if at < 0 { // of another store, or of an instance that is configured differently
			at = len(o.limits)
			o.limits = append(o.limits, limitJSON{Name: counted.Name, Shadow: counted.Shadow})
			o.limits[at].describe(counted.Algorithm, counted.Quota, counted.Burst, counted.Window)
		}
		o.limits[at].count(counted, until)
	}
	slices.SortStableFunc(o.limits, func(a, b limitJSON) int {
		return cmp.Or(
			cmp.Compare(b.Minute.Denied+b.Minute.WouldDeny, a.Minute.Denied+a.Minute.WouldDeny),
			cmp.Compare(b.Minute.Requests, a.Minute.Requests),
			cmp.Compare(a.Name, b.Name),
		)
	})
	shown := o.limits[:min(len(o.limits), overviewLimits)]
	o.More = len(o.limits) - len(shown)
	o.Limits = make([]limitJSON, len(shown))
	for i, l := range shown {
		l.Minutes = nil
		o.Limits[i] = l
	}
	o.Denied, o.WouldDeny = h.denied(snapshot)
	o.Near = h.near(snapshot)
	return o, overviewFor
}

// missingInstances says in words why other instances can't be read. The error's text stays out.
func missingInstances(err error) string {
	if err == nil {
		return ""
	}
	text := "Other instances can't be read"
	if e := (*store.Error)(nil); errors.As(err, &e) {
		text += ": " + string(e.Class)
	}
	return text + ". Counts may be those of this instance alone."
}

// completeUntil returns the time until which all instances have counted: what the others have counted
// since their last snapshot is missing, and would look as if requests had ceased.
func completeUntil(s *top.Snapshot, now time.Time) time.Time {
	until := now
	for _, i := range s.Instances {
		if i.At.Before(until) && now.Sub(i.At) < freshInstance {
			until = i.At
		}
	}
	return until
}

func declared(d store.Declaration) limitJSON {
	l := limitJSON{Name: d.Rule.Name, Keys: d.Keys, Shadow: d.Shadow, CanBlock: !d.Shadow, Penalized: d.Rule.Penalized() && !d.Shadow, Here: true}
	l.describe(d.Rule.Algorithm, d.Rule.Quota, d.Rule.Burst, d.Rule.Window)
	if d.Rule.Algorithm == store.Calendar {
		l.Window, l.WindowMS = calendarWindow(d.Rule.Calendar), 0
		l.Numbers = numbers(d.Rule.Quota, d.Rule.Burst, l.Window)
	}
	return l
}

func (l *limitJSON) describe(a store.Algorithm, quota, burst int64, window time.Duration) {
	l.Algorithm, l.Quota, l.Burst = a.String(), quota, burst
	l.WindowMS, l.Window = window.Milliseconds(), short(window)
	l.Numbers = numbers(quota, burst, l.Window)
	if a == store.Concurrency {
		l.Numbers = strconv.FormatInt(quota, 10) + " at the same time"
	}
}

// count adds what was counted of a limit.
func (l *limitJSON) count(counted *top.Limit, until time.Time) {
	l.Versions = counted.Versions
	l.Seconds = series(counted.Rates.Seconds, until)
	l.Minutes = series(counted.Rates.Minutes, until)
	s := l.Seconds
	n := len(s.Allowed)
	for i := max(0, n-60); i < n; i++ {
		l.Minute.Denied += s.Denied[i]
		l.Minute.WouldDeny += s.WouldDeny[i]
		l.Minute.Requests += s.Allowed[i] + s.Denied[i] + s.WouldDeny[i]
	}
	if last := max(0, n-recent); n > 0 {
		l.PerSecond = ratesJSON{mean(s.Allowed[last:]), mean(s.Denied[last:]), mean(s.WouldDeny[last:])}
	}
	// Blocked clients come again and again, or not at all, and such a limit is there for what most clients
	// never do: what they use says nothing about the number.
	if suggested, ok := counted.Use.Suggest(share); ok && !l.Penalized {
		l.Suggest = &suggestionJSON{
			Share: share, Quota: suggested.Quota, Low: suggested.Low, High: suggested.High,
			WindowMS: suggested.Window.Milliseconds(), Clients: suggested.Clients, Within: counted.Use.Share(l.Quota),
		}
	}
}

func series(from top.Series, until time.Time) *seriesJSON {
	n := len(from.Allowed)
	for n > 0 && from.Start.Add(time.Duration(n)*from.Step).After(until) {
		n--
	}
	return &seriesJSON{
		StepMS: from.Step.Milliseconds(), Start: from.Start,
		Allowed: orEmpty(from.Allowed[:n]), Denied: orEmpty(from.Denied[:n]), WouldDeny: orEmpty(from.WouldDeny[:n]),
	}
}

// orEmpty returns s, which is not null in JSON.
func orEmpty(s []int64) []int64 {
	if s == nil {
		return []int64{}
	}
	return s
}

// mean returns the mean to a tenth.
func mean(s []int64) float64 {
	sum := int64(0)
	for _, n := range s {
		sum += n
	}
	return float64(sum*10/int64(max(len(s), 1))) / 10
}

func (h *Handler) serveOverview(r *request) *problem {
	o, err := h.overview(r.Context())
	if err != nil {
		return gone(err)
	}
	return r.answer(h.sessionOf(r, o))
}

func (h *Handler) sessionOf(r *request, o *overview) session {
	return session{o, r.actor, r.may == Act, int64(h.config.MaxBlock / time.Second)}
}

// gone is the answer to a client that hung up.
func gone(error) *problem {
	return &problem{http.StatusServiceUnavailable, "The request ended before there was an answer."}
}

func (h *Handler) serveLimits(r *request) *problem {
	o, err := h.overview(r.Context())
	if err != nil {
		return gone(err)
	}
	limits := o.limits
	if name := r.URL.Query().Get("limit"); name != "" {
		limits = slices.DeleteFunc(slices.Clone(limits), func(l limitJSON) bool { return l.Name != name })
		if len(limits) == 0 {
			return &problem{http.StatusNotFound, "There is no limit of this name."}
		}
	}
	if limits == nil {
		limits = []limitJSON{}
	}
	return r.answer(struct {
		At     time.Time   `json:"at"`
		Limits []limitJSON `json:"limits"`
	}{o.At, limits})
}
