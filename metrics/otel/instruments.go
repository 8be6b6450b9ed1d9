package otel

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// instruments are those of the meter. doc.go has them as a table.
type instruments struct {
	decisions     metric.Int64Counter
	wouldBeDenied metric.Int64Counter
	shares        metric.Int64Counter
	check         metric.Float64Histogram
	retryAfter    metric.Float64Histogram
	wait          metric.Float64Histogram
	settlements   metric.Int64Counter
	settledUnits  metric.Int64Counter
	storeErrors   metric.Int64Counter
	lost          metric.Int64Counter
	breakersOpen  metric.Int64UpDownCounter
	outages       metric.Int64UpDownCounter
	ledgersOut    metric.Int64UpDownCounter
	waiting       metric.Int64Counter
	forked        metric.Int64Counter
	noticesFailed metric.Int64Counter
	noticesDead   metric.Int64Counter
	exportsFailed metric.Int64Counter
}

// Bounds in seconds. A check on Redis takes some 100 µs, and 100 ms is the default deadline. A
// window may be a month.
var (
	checkBounds      = []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}
	waitBounds       = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	retryAfterBounds = []float64{.01, .1, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400, 604800}
)

// make makes the instruments.
func (s *instruments) make(m metric.Meter) error {
	var failed []error
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		failed = append(failed, err)
		return c
	}
	level := func(name, unit, what string) metric.Int64UpDownCounter {
		c, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		failed = append(failed, err)
		return c
	}
	seconds := func(name, what string, bounds []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		failed = append(failed, err)
		return h
	}
	s.decisions = counter("weblimit.decisions", "{decision}", "Decisions, by the limit that each is due to.")
	s.wouldBeDenied = counter("weblimit.would_be_denied", "{decision}", "Requests that a limit in shadow mode would have denied.")
	s.shares = counter("weblimit.shares", "{decision}", "What limits that clients divide said to requests, by how the client stood to its share.")
	s.check = seconds("weblimit.check.duration", "How long the store took to decide a request.", checkBounds)
	s.retryAfter = seconds("weblimit.retry_after", "How long denied requests were told to wait.", retryAfterBounds)
	s.wait = seconds("weblimit.wait.duration", "How long requests waited for their turn.", waitBounds)
	s.settlements = counter("weblimit.settlements", "{settlement}", "Changes to what allowed requests were charged.")
	s.settledUnits = counter("weblimit.settled.units", "{unit}", "Units that were given back or charged after the response.")
	s.storeErrors = counter("weblimit.store.errors", "{error}", "Decisions and settlements that the store did not answer.")
	s.lost = counter("weblimit.store.settlements.lost", "{settlement}", "Settlements that the store did not take and nothing tries again.")
	s.breakersOpen = level("weblimit.store.breakers.open", "{breaker}", "Circuit breakers that are open.")
	s.outages = level("weblimit.store.outages", "{store}", "Stores that do not answer.")
	s.ledgersOut = level("weblimit.ledger.out", "{ledger}", "Ledgers of quota.Book that do not answer.")
	s.waiting = counter("weblimit.ledger.accounts.waiting", "{account}", "Accounts that this process could not remember, so that what they used waits in the store.")
	s.forked = counter("weblimit.ledger.accounts.forked", "{account}", "Accounts of which the store had lost what the ledger has.")
	s.noticesFailed = counter("weblimit.notices.failed", "{attempt}", "Attempts to deliver notices of a quota.Book that failed.")
	s.noticesDead = counter("weblimit.notices.dead", "{notice}", "Notices of a quota.Book that are not tried any more.")
	s.exportsFailed = counter("weblimit.exports.failed", "{increment}", "Increments of usage of a quota.Book that a receiver did not accept.")
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("weblimit: otel: %w", err)
	}
	return nil
}
