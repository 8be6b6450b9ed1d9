package inspect

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/pageapi"
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
	pageapi.Overview

	snapshot *top.Snapshot
	limits   []pageapi.Limit // all of them
	regions  []pageapi.Region
}

func (h *Handler) overview(ctx context.Context) (*overview, error) {
	return h.overviews.get(ctx, h.config.Timeout, h.makeOverview)
}

func (h *Handler) makeOverview(ctx context.Context) (*overview, time.Duration) {
	snapshot, err := h.config.Top.Collect(ctx)
	registry := h.config.Store.Registry()
	state := h.health.now(registry.Server())
	o := &overview{snapshot: snapshot, Overview: pageapi.Overview{
		At: time.Now(), Version: core.Version(), Instance: h.config.Top.Instance(), Instances: []pageapi.Instance{},
		Partial: missingInstances(err), Store: &state, Uncounted: snapshot.Uncounted,
	}}
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
		at := slices.IndexFunc(o.limits, func(l pageapi.Limit) bool { return l.Name == counted.Name })
		if at < 0 { // of another store, or of an instance that is configured differently
			at = len(o.limits)
			o.limits = append(o.limits, pageapi.Limit{Name: counted.Name, Shadow: counted.Shadow})
			describe(&o.limits[at], counted.Algorithm, counted.Quota, counted.Burst, counted.Window)
		}
		count(&o.limits[at], counted, until)
	}
	slices.SortStableFunc(o.limits, func(a, b pageapi.Limit) int {
		return cmp.Or(
			cmp.Compare(b.Minute.Denied+b.Minute.WouldDeny, a.Minute.Denied+a.Minute.WouldDeny),
			cmp.Compare(b.Minute.Requests, a.Minute.Requests),
			cmp.Compare(a.Name, b.Name),
		)
	})
	shown := o.limits[:min(len(o.limits), overviewLimits)]
	o.More = int64(len(o.limits) - len(shown))
	o.Limits = make([]pageapi.Limit, len(shown))
	for i, l := range shown {
		l.Minutes = nil
		o.Limits[i] = l
	}
	o.Denied, o.WouldDeny = h.denied(snapshot)
	o.Near = h.near(snapshot)
	o.regions = regionsOf(registry)
	o.Regions = mostAsking(o.regions)
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

func declared(d store.Declaration) pageapi.Limit {
	l := pageapi.Limit{Name: d.Rule.Name, Keys: d.Keys, Shadow: d.Shadow, CanBlock: !d.Shadow && kindsOf(&d) == d.Keys, Penalized: d.Rule.Penalized() && !d.Shadow, Here: true}
	describe(&l, d.Rule.Algorithm, d.Rule.Quota, d.Rule.Burst, d.Rule.Window)
	if d.Rule.Algorithm == store.Calendar {
		l.Window, l.WindowMS = calendarWindow(d.Rule.Calendar), 0
		l.Numbers = numbers(d.Rule.Quota, d.Rule.Burst, l.Window)
	}
	return l
}

func describe(l *pageapi.Limit, a store.Algorithm, quota, burst int64, window time.Duration) {
	l.Algorithm, l.Quota, l.Burst = a.String(), quota, burst
	l.WindowMS, l.Window = window.Milliseconds(), short(window)
	l.Numbers = numbers(quota, burst, l.Window)
	if a == store.Concurrency {
		l.Numbers = strconv.FormatInt(quota, 10) + " at the same time"
	}
}

// count adds what was counted of a limit.
func count(l *pageapi.Limit, counted *top.Limit, until time.Time) {
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
		l.PerSecond = pageapi.Rates{Allowed: mean(s.Allowed[last:]), Denied: mean(s.Denied[last:]), WouldDeny: mean(s.WouldDeny[last:])}
	}
	// Blocked clients come again and again, or not at all, and such a limit is there for what most clients
	// never do: what they use says nothing about the number.
	if suggested, ok := counted.Use.Suggest(share); ok && !l.Penalized && !strings.Contains(l.Keys, " divided ") { // of which a client's use says nothing
		l.Suggest = &pageapi.Suggestion{
			Share: share, Quota: suggested.Quota, Low: suggested.Low, High: suggested.High,
			WindowMS: suggested.Window.Milliseconds(), Clients: suggested.Clients, Within: counted.Use.Share(l.Quota),
		}
	}
}

func series(from top.Series, until time.Time) *pageapi.Series {
	n := len(from.Allowed)
	for n > 0 && from.Start.Add(time.Duration(n)*from.Step).After(until) {
		n--
	}
	return &pageapi.Series{
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

func (h *Handler) sessionOf(r *request, o *overview) pageapi.Session {
	return pageapi.Session{Overview: &o.Overview, Actor: r.actor, MayAct: r.may == Act, MaxBlockSec: int64(h.config.MaxBlock / time.Second)}
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
		limits = slices.DeleteFunc(slices.Clone(limits), func(l pageapi.Limit) bool { return l.Name != name })
		if len(limits) == 0 {
			return &problem{http.StatusNotFound, "There is no limit of this name."}
		}
	}
	if limits == nil {
		limits = []pageapi.Limit{}
	}
	return r.answer(pageapi.Limits{At: o.At, Limits: limits, Regions: o.regions})
}
