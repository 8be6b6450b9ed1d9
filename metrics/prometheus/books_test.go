package prometheus_test

import (
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
)

// What a quota.Book reports is measured, and its counters are there before anything happens: an alert
// that asks for an increase sees the first one.
func TestBooksAreMeasured(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	names := []string{
		"weblimit_ledger_out", "weblimit_ledger_outages_total", "weblimit_ledger_accounts_waiting_total", "weblimit_ledger_accounts_forked_total",
		"weblimit_notices_dead_total",
	}
	observer.StoreEvent(core.Event{Kind: core.EventLedgerBack}) // of an outage that it has not seen begin
	wantValues(t, registry, names, "ledger_accounts_forked_total{} 0", "ledger_accounts_waiting_total{} 0", "ledger_out{} 0", "ledger_outages_total{} 0", "notices_dead_total{} 0")
	for _, e := range []core.Event{
		{Kind: core.EventLedgerOut},
		{Kind: core.EventLedgerOut},
		{Kind: core.EventLedgerBack},
		{Kind: core.EventAccountsWaiting, Count: 70},
		{Kind: core.EventAccountsForked, Count: 3},
		{Kind: core.EventNoticesFailing, Node: "billing", Count: 2},
		{Kind: core.EventNoticesDead, Node: "billing", Count: 1},
		{Kind: core.EventExportFailing, Node: "openmeter", Count: 500},
	} {
		observer.StoreEvent(e)
	}
	wantValues(t, registry, append(names, "weblimit_notices_failed_total", "weblimit_exports_failed_total"),
		`exports_failed_total{export="openmeter"} 500`, "ledger_accounts_forked_total{} 3", "ledger_accounts_waiting_total{} 70", "ledger_out{} 1",
		"ledger_outages_total{} 2", "notices_dead_total{} 1", `notices_failed_total{channel="billing"} 2`)
}

func TestReceiversAreBounded(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	for i := range 1000 {
		observer.StoreEvent(core.Event{Kind: core.EventNoticesFailing, Node: fmt.Sprintf("channel-%d\xff", i), Count: 1})
	}
	check.Equal(t, "series", len(values(t, registry, "weblimit_notices_failed_total")), 257)
}
