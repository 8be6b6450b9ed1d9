package otel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// health is what store events have said. Events that end what this observer has not seen begin
// must not count below zero: it may watch a store since the middle of an outage.
type health struct {
	mu       sync.Mutex
	outages  int            // Guarded by mu.
	ledgers  int            // that do not answer. Guarded by mu.
	breakers map[string]int // by node. Guarded by mu.
}

// StoreEvent implements [core.Observer].
func (o *Observer) StoreEvent(e core.Event) {
	if o.unmeasured {
		return
	}
	ctx := context.Background()
	switch e.Kind {
	case store.EventStoreError:
		o.storeErrors.Add(ctx, max(e.Count, 1), metric.WithAttributes(o.nodeAttrs(e.Node, attrErrorType.String(word(string(e.Class))))...))
	case store.EventSettlementsLost:
		o.lost.Add(ctx, max(e.Count, 1), metric.WithAttributes(attrErrorType.String(word(string(e.Class)))))
	case store.EventBreakerOpened:
		o.breaker(ctx, e.Node, 1)
	case store.EventBreakerClosed:
		o.breaker(ctx, e.Node, -1)
	case store.EventOutageBegan:
		o.outage(ctx, 1)
	case store.EventOutageEnded:
		o.outage(ctx, -1)
	default:
		o.bookEvent(ctx, &e)
	}
}

// The kinds of events of a quota.Book that are measured. This module does not import it; a test in internal/test/documents
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

// bookEvent measures an event of a quota.Book. Its channels and exports have names of the application's,
// at most 64 of each.
func (o *Observer) bookEvent(ctx context.Context, e *core.Event) {
	n := max(e.Count, 1)
	switch e.Kind {
	case ledgerOut:
		o.ledger(ctx, 1)
	case ledgerBack:
		o.ledger(ctx, -1)
	case accountsWaiting:
		o.waiting.Add(ctx, n)
	case accountsForked:
		o.forked.Add(ctx, n)
	case noticesFailing:
		o.noticesFailed.Add(ctx, n, metric.WithAttributes(attrChannel.String(o.receiver(e.Node))))
	case noticesDead:
		o.noticesDead.Add(ctx, n, metric.WithAttributes(attrChannel.String(o.receiver(e.Node))))
	case exportFailing:
		o.exportsFailed.Add(ctx, n, metric.WithAttributes(attrExport.String(o.receiver(e.Node))))
	}
}

// receiver returns the name that a channel or an export is counted under.
func (o *Observer) receiver(name string) string {
	o.health.mu.Lock()
	defer o.health.mu.Unlock()
	return valid(o.health.node(name))
}

// ledger counts ledgers that do not answer.
func (o *Observer) ledger(ctx context.Context, change int) {
	o.health.mu.Lock()
	defer o.health.mu.Unlock()
	if o.health.ledgers+change < 0 {
		return
	}
	o.health.ledgers += change
	o.ledgersOut.Add(ctx, int64(change))
}

// outage counts stores that do not answer.
func (o *Observer) outage(ctx context.Context, change int) {
	o.health.mu.Lock()
	defer o.health.mu.Unlock()
	if o.health.outages+change < 0 {
		return
	}
	o.health.outages += change
	o.outages.Add(ctx, int64(change))
}

// breaker counts breakers that are open.
func (o *Observer) breaker(ctx context.Context, node string, change int) {
	o.health.mu.Lock()
	defer o.health.mu.Unlock()
	name := o.health.node(node)
	if o.health.breakers[name]+change < 0 {
		return
	}
	o.health.breakers[name] += change
	o.breakersOpen.Add(ctx, int64(change), metric.WithAttributes(nodeAttr(name)...))
}

// node returns the name that a node is counted under. mu is held.
func (h *health) node(name string) string {
	if h.breakers == nil {
		h.breakers = make(map[string]int)
	}
	if _, known := h.breakers[name]; !known {
		if len(h.breakers) >= maxNodes {
			name = other
		}
		h.breakers[name] += 0
	}
	return name
}

// nodeAttrs returns the attributes of an error of a node.
func (o *Observer) nodeAttrs(node string, attrs ...attribute.KeyValue) []attribute.KeyValue {
	o.health.mu.Lock()
	defer o.health.mu.Unlock()
	return append(attrs, nodeAttr(o.health.node(node))...)
}

// nodeAttr returns no attribute for what is not about one node.
func nodeAttr(name string) []attribute.KeyValue {
	if name == "" {
		return nil
	}
	return []attribute.KeyValue{attrNode.String(valid(name))}
}
