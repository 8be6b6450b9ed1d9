package prometheus

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
)

// maxReceivers bounds the labels of channels, and those of exports. A quota.Book has at most 64.
const maxReceivers = 256

// The kinds of events of a quota.Book that are counted. This module does not import it; a test in internal/test/documents
// compares them.
const (
	ledgerOut       store.EventKind = "ledger out"
	ledgerBack      store.EventKind = "ledger back"
	accountsWaiting store.EventKind = "accounts waiting"
	accountsForked  store.EventKind = "accounts forked"
	noticesFailing  store.EventKind = "notices failing"
	noticesDead     store.EventKind = "notices dead"
	exportFailing   store.EventKind = "export failing"
)

// bookEvents is what the observer knows of books by the events of their stores. Its zero value is ready
// to use.
type bookEvents struct {
	mu        sync.Mutex
	out       int             // ledgers that do not answer. Guarded by mu.
	receivers map[string]bool // channels and exports that have labels. Guarded by mu.
}

// event counts an event of a book.
func (b *bookEvents) event(m *metrics, e *core.Event) {
	n := float64(max(e.Count, 1))
	switch e.Kind {
	case ledgerOut:
		b.change(1)
		m.ledgerOutages.Inc()
	case ledgerBack:
		b.change(-1)
	case accountsWaiting:
		m.accountsWait.Add(n)
	case accountsForked:
		m.accountsForked.Add(n)
	case noticesFailing:
		m.noticesFailed.WithLabelValues(b.receiver(e.Node)).Add(n)
	case noticesDead:
		m.noticesDead.Add(n)
	case exportFailing:
		m.exportsFailed.WithLabelValues(b.receiver(e.Node)).Add(n)
	}
}

// change counts ledgers that are out. The end of what began before the observer was there counts
// nothing.
func (b *bookEvents) change(by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = max(b.out+by, 0)
}

// receiver returns the label of a channel or an export.
func (b *bookEvents) receiver(name string) string {
	name = strings.ToValidUTF8(name, "?")
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.receivers[name] {
		if len(b.receivers) >= maxReceivers {
			return otherSeries
		}
		if b.receivers == nil {
			b.receivers = map[string]bool{}
		}
		b.receivers[strings.Clone(name)] = true
	}
	return name
}

func (b *bookEvents) collect(m *metrics, to chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	to <- prometheus.MustNewConstMetric(m.ledgerOut, prometheus.GaugeValue, float64(b.out))
}

// bookMetrics are those of the numbers that books tell.
type bookMetrics struct {
	accounts, unwritten, units, differences, delivered, notices, sent, exports *prometheus.Desc
}

func newBookMetrics(desc func(name, help string, by ...string) *prometheus.Desc) bookMetrics {
	return bookMetrics{
		accounts:    desc("ledger_accounts", "Accounts of a quota.Book that this process remembers."),
		unwritten:   desc("ledger_unwritten_accounts", "Accounts whose last change is not in the ledger yet."),
		units:       desc("ledger_units_total", "Units of requests under the limits that a quota.Book keeps.", "limit", "result"),
		differences: desc("ledger_differences_total", "Accounts of which store and ledger were found to differ, by cause.", "cause"),
		delivered:   desc("notices_delivered_total", "Notices of a quota.Book that this process has delivered.", "channel"),
		notices:     desc("notices_pending", "Notices that wait for their delivery, by any process.", "channel"),
		sent:        desc("exports_sent_total", "Increments of usage that a receiver has accepted from this process.", "export"),
		exports:     desc("exports_pending", "Increments of usage that a receiver does not have yet, from any process.", "export"),
	}
}

// ledgerCauses are those of quota.Cause. Their series are there before anything is found, so that the
// first one is an increase.
var ledgerCauses = [...]string{"not flushed", "forked", "forgotten", "behind", "ahead", "unknown key", "unknown limit"}

// bookSeries adds up the numbers of all books, by label. Its zero value is ready to use.
type bookSeries struct {
	any                 bool
	accounts, unwritten float64
	units               map[[2]string]float64
	differences         map[string]float64
	notices, exports    map[string]books.Deliveries
}

func (s *bookSeries) add(all []books.Stats) {
	if len(all) > 0 && !s.any {
		s.any, s.units, s.differences = true, map[[2]string]float64{}, map[string]float64{}
		s.notices, s.exports = map[string]books.Deliveries{}, map[string]books.Deliveries{}
		for _, cause := range ledgerCauses {
			s.differences[cause] = 0
		}
	}
	for _, l := range all {
		s.accounts += float64(l.Accounts)
		s.unwritten += float64(l.Unwritten)
		for limit, u := range l.Units {
			limit = strings.ToValidUTF8(limit, "?")
			s.units[[2]string{limit, "granted"}] += float64(u.Granted)
			s.units[[2]string{limit, "denied"}] += float64(u.Denied)
		}
		for cause, n := range l.Differences {
			s.differences[cause] += float64(n)
		}
		addDeliveries(s.notices, l.Notices)
		addDeliveries(s.exports, l.Exports)
	}
}

func addDeliveries(to, all map[string]books.Deliveries) {
	for name, d := range all {
		name = strings.ToValidUTF8(name, "?")
		// Several books with one schema see the same.
		to[name] = books.Deliveries{Done: to[name].Done + d.Done, Pending: max(to[name].Pending, d.Pending)}
	}
}

func (s *bookSeries) collect(m *bookMetrics, to chan<- prometheus.Metric) {
	if !s.any {
		return
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	send(m.accounts, prometheus.GaugeValue, s.accounts)
	send(m.unwritten, prometheus.GaugeValue, s.unwritten)
	for by, n := range s.units {
		send(m.units, prometheus.CounterValue, n, by[0], by[1])
	}
	for cause, n := range s.differences {
		send(m.differences, prometheus.CounterValue, n, cause)
	}
	for channel, d := range s.notices {
		send(m.delivered, prometheus.CounterValue, float64(d.Done), channel)
		send(m.notices, prometheus.GaugeValue, float64(d.Pending), channel)
	}
	for export, d := range s.exports {
		send(m.sent, prometheus.CounterValue, float64(d.Done), export)
		send(m.exports, prometheus.GaugeValue, float64(d.Pending), export)
	}
}
