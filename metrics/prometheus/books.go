package prometheus

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weblimit/weblimit/core"
)

// maxReceivers bounds the labels of channels, and those of exports. A quota.Book has at most 64.
const maxReceivers = 256

// books is what the observer knows of books by the events of their stores. Its zero value is ready
// to use.
type books struct {
	mu        sync.Mutex
	out       int             // ledgers that do not answer. Guarded by mu.
	receivers map[string]bool // channels and exports that have labels. Guarded by mu.
}

// event counts an event of a book.
func (b *books) event(m *metrics, e *core.Event) {
	n := float64(max(e.Count, 1))
	switch e.Kind {
	case core.EventLedgerOut:
		b.change(1)
		m.ledgerOutages.Inc()
	case core.EventLedgerBack:
		b.change(-1)
	case core.EventAccountsWaiting:
		m.accountsWait.Add(n)
	case core.EventAccountsForked:
		m.accountsForked.Add(n)
	case core.EventNoticesFailing:
		m.noticesFailed.WithLabelValues(b.receiver(e.Node)).Add(n)
	case core.EventNoticesDead:
		m.noticesDead.Add(n)
	case core.EventExportFailing:
		m.exportsFailed.WithLabelValues(b.receiver(e.Node)).Add(n)
	}
}

// change counts ledgers that are out. The end of what began before the observer was there counts
// nothing.
func (b *books) change(by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = max(b.out+by, 0)
}

// receiver returns the label of a channel or an export.
func (b *books) receiver(name string) string {
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

func (b *books) collect(m *metrics, to chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	to <- prometheus.MustNewConstMetric(m.ledgerOut, prometheus.GaugeValue, float64(b.out))
}
