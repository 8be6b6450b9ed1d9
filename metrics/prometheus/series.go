package prometheus

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// otherSeries is the label of what would exceed a bound.
const otherSeries = "other"

// maxLimits bounds how many limits have series of their own. Applications name limits, so that it
// matters only to those that make names of what clients send.
const maxLimits = 1000

// limitSeries are the series of one limit.
type limitSeries struct {
	name    string
	metrics *metrics
	max     int         // label sets of decisions, and routes
	growing *sync.Mutex // of the observer

	check, retryAfter, wait *histogram
	near, capped            prometheus.Counter
	shares                  [len(standings)][len(resultNames)]atomic.Pointer[prometheus.Counter]

	settles     sync.Once
	settlements [len(settledNames)]struct{ times, units prometheus.Counter } // set by settles

	recent recent[routeSeries]
	routes atomic.Pointer[map[string]*routeSeries] // by template; copied on write
	sets   int                                     // label sets of decisions. Guarded by growing.
	full   atomic.Bool                             // no route is added any more
	other  *routeSeries
}

// routeSeries are the series of one limit and route. Those of decisions are made when they are
// needed, and found without a lock.
type routeSeries struct {
	route     string
	decisions [2 * maxReasons]atomic.Pointer[decisionSeries]
	results   [len(resultNames)]atomic.Pointer[prometheus.Counter]
}

// decisionSeries is one series of decisions.
type decisionSeries struct {
	prometheus.Counter
	capped   bool // it stands for one that would have been too many
	exemplar throttle
}

// maxReasons is above the number of reasons. Further ones share a series.
const maxReasons = 32

// What a limit says to a request.
const (
	resultAllowed = iota
	resultDenied
	resultWouldBeDenied
	resultPassedOver
)

var resultNames = [...]string{resultAllowed: "allowed", resultDenied: "denied", resultWouldBeDenied: "would_be_denied", resultPassedOver: "passed_over"}

// What is settled.
const (
	settledRefund = iota
	settledCharge
	settledFailed
	settledForgiven // of what was charged, beyond the debt that a client can have
)

var settledNames = [...]string{settledRefund: "refunded", settledCharge: "charged", settledFailed: "failed", settledForgiven: "forgiven"}

// word writes a reason or class as labels are written: limit_exceeded.
func word(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, " ", "_"), "?")
}

// named returns the label and the series of a limit, which are nil if it has none yet.
func (o *Observer) named(name string) (string, *limitSeries) {
	limits := *o.limits.Load()
	if of := limits[name]; of != nil {
		return of.name, of
	}
	if len(limits) >= maxLimits {
		return otherSeries, limits[otherSeries]
	}
	return strings.ToValidUTF8(name, "?"), nil
}

// limit returns the series of a limit, which it makes if there are none.
func (o *Observer) limit(name string) *limitSeries {
	place := o.recent.place(name)
	first := place.Load()
	if first != nil && first.name == name {
		return first
	}
	if of := (*o.limits.Load())[name]; of != nil {
		if first == nil {
			place.Store(of)
		}
		return of
	}
	o.growing.Lock()
	defer o.growing.Unlock()
	label, of := o.named(name)
	if of != nil {
		return of
	}
	label = strings.Clone(label)
	of = &limitSeries{
		name: label, metrics: &o.metrics, max: o.config.MaxSeries, growing: &o.growing,
		check: newHistogram(&checkBounds), retryAfter: newHistogram(&retryAfterBounds), wait: newHistogram(&waitBounds),
		near: o.metrics.near.WithLabelValues(label), capped: o.metrics.capped.WithLabelValues(label),
		other: &routeSeries{route: otherSeries},
	}
	of.routes.Store(&map[string]*routeSeries{})
	limits := copyWith(*o.limits.Load(), label, of)
	o.limits.Store(&limits)
	return of
}

// copyWith returns a copy of m with one more entry.
func copyWith[V any](m map[string]V, key string, value V) map[string]V {
	c := make(map[string]V, len(m)+1)
	for k, v := range m {
		c[k] = v
	}
	c[key] = value
	return c
}

// route returns the series of a route, which it makes if there are none. The template may alias a
// buffer of the framework.
func (l *limitSeries) route(template string) *routeSeries {
	place := l.recent.place(template)
	first := place.Load()
	if first != nil && first.route == template {
		return first
	}
	if r := (*l.routes.Load())[template]; r != nil {
		if first == nil {
			place.Store(r)
		}
		return r
	}
	if l.full.Load() {
		return l.other
	}
	l.growing.Lock()
	defer l.growing.Unlock()
	template = strings.ToValidUTF8(strings.Clone(template), "?")
	routes := *l.routes.Load()
	if r := routes[template]; r != nil {
		return r
	}
	if l.isFull() {
		return l.other
	}
	r := &routeSeries{route: template}
	routes = copyWith(routes, template, r)
	l.routes.Store(&routes)
	l.isFull()
	return r
}

// isFull reports whether no route may be added. l.growing is held.
func (l *limitSeries) isFull() bool {
	if l.sets >= l.max || len(*l.routes.Load()) >= l.max {
		l.full.Store(true)
	}
	return l.full.Load()
}

// decided counts a decision that is due to the limit.
func (l *limitSeries) decided(at *routeSeries, d *core.Decision, t *tracing) {
	slot := slotOf(d.Reason, d.Allowed)
	series := at.decisions[slot].Load()
	if series == nil {
		series = l.addDecision(at, slot)
		if d.Reason == core.ReasonWithinLimit && l.name != "" {
			// From 0 on, so that the first denial shows as an increase.
			l.addDecision(at, slotOf(core.ReasonLimitExceeded, false))
		}
	}
	if series.capped {
		l.capped.Inc()
	}
	if !d.Allowed {
		if trace := t.due(&series.exemplar); trace != "" {
			series.Counter.(prometheus.ExemplarAdder).AddWithExemplar(1, prometheus.Labels{traceLabel: trace})
			return
		}
	}
	series.Inc()
}

// slotOf returns the index of a decision in routeSeries.
func slotOf(reason core.Reason, allowed bool) int {
	slot := 2 * min(int(reason), maxReasons-1)
	if allowed {
		slot++
	}
	return slot
}

// addDecision adds a series to a route. If the limit has too many it adds that of otherSeries.
func (l *limitSeries) addDecision(at *routeSeries, slot int) *decisionSeries {
	l.growing.Lock()
	defer l.growing.Unlock()
	if series := at.decisions[slot].Load(); series != nil {
		return series
	}
	if at != l.other && l.sets >= l.max {
		series := l.decisionOf(l.other, slot)
		at.decisions[slot].Store(series)
		return series
	}
	if at != l.other {
		l.sets++
		l.isFull()
	}
	return l.decisionOf(at, slot)
}

// decisionOf returns the series of a route for one kind of decision. l.growing is held.
func (l *limitSeries) decisionOf(at *routeSeries, slot int) *decisionSeries {
	if series := at.decisions[slot].Load(); series != nil {
		return series
	}
	decision := "denied"
	if slot%2 == 1 {
		decision = "allowed"
	}
	series := &decisionSeries{
		Counter: l.metrics.decisions.WithLabelValues(l.name, at.route, decision, word(core.Reason(slot/2).String())),
		capped:  at == l.other,
	}
	at.decisions[slot].Store(series)
	return series
}

// said counts what the limit said to a request.
func (l *limitSeries) said(at *routeSeries, r *core.LimitResult, d *core.Decision) {
	result := resultAllowed
	switch {
	case r.PassedOver:
		result = resultPassedOver
	case r.Allowed:
		if r.Charged && nearPart*r.Remaining < r.Usual(r.Rule) {
			l.near.Inc()
		}
	case r.Shadow:
		result = resultWouldBeDenied
	default:
		result = resultDenied
	}
	series := at.results[result].Load()
	if series == nil {
		series = l.addResults(at, r.Shadow, result)
	}
	(*series).Inc()
	if r.Standing != store.Undivided {
		l.share(r.Standing, result)
	}
	if class := d.Class(r.Rule.Name); class != "" {
		if l.name == otherSeries {
			class = otherSeries
		}
		l.metrics.classes.WithLabelValues(l.name, class, resultNames[result]).Inc()
	}
}

// standings are the values of the label standing.
var standings = [...]string{
	store.WithinShare: "within_share", store.OverShare: "over_share", store.OfMinimum: "of_minimum",
	store.UserOver: "user_over_share", store.OverMaximum: "over_maximum",
}

// share counts what a limit that clients divide said to a request.
func (l *limitSeries) share(standing store.Standing, result int) {
	if int(standing) >= len(standings) { // of a store that knows more
		return
	}
	at := &l.shares[standing][result]
	counter := at.Load()
	if counter == nil {
		made := l.metrics.shares.WithLabelValues(l.name, standings[standing], resultNames[result])
		counter = &made
		at.Store(counter)
		if standing == store.WithinShare { // from 0 on, so that the first denial shows as an increase
			l.metrics.shares.WithLabelValues(l.name, standings[store.OverShare], resultNames[resultDenied])
		}
	}
	(*counter).Inc()
}

// nearPart says how much a client near its limit has left: less than this part of the burst.
const nearPart = 5

// addResults adds the series of a route's results, and returns one of them. They start at 0
// together, so that the first denial shows as an increase.
func (l *limitSeries) addResults(at *routeSeries, shadow bool, result int) *prometheus.Counter {
	denied := resultDenied
	if shadow {
		denied = resultWouldBeDenied
	}
	l.growing.Lock()
	defer l.growing.Unlock()
	for _, each := range []int{resultAllowed, denied, result} {
		if at.results[each].Load() == nil {
			counter := l.metrics.results.WithLabelValues(l.name, at.route, resultNames[each])
			at.results[each].Store(&counter)
		}
	}
	return at.results[result].Load()
}

// settled counts a settlement. Most limits have none, so their series are made with the first.
func (l *limitSeries) settled(s *core.Settlement) {
	l.settles.Do(func() {
		for kind, name := range settledNames {
			s := &l.settlements[kind]
			s.times, s.units = l.metrics.settlements.WithLabelValues(l.name, name), l.metrics.settledUnits.WithLabelValues(l.name, name)
		}
	})
	if s.Forgiven > 0 {
		l.count(settledForgiven, s.Forgiven)
	}
	switch units := s.Units - s.Forgiven; {
	case s.Err != nil:
		l.count(settledFailed, s.Units)
	case s.Units < 0:
		l.count(settledRefund, s.Units)
	case units > 0 || s.Forgiven == 0:
		l.count(settledCharge, units)
	}
}

func (l *limitSeries) count(kind int, units int64) {
	l.settlements[kind].times.Inc()
	l.settlements[kind].units.Add(math.Abs(float64(units)))
}

// collect sends the histograms that have seen something.
func (l *limitSeries) collect(m *metrics, to chan<- prometheus.Metric) {
	for desc, h := range map[*prometheus.Desc]*histogram{m.check: l.check, m.retryAfter: l.retryAfter, m.wait: l.wait} {
		if h.used() {
			to <- &histogramMetric{desc, h, l.name}
		}
	}
}
