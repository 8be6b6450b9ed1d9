package prometheus_test

import (
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
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
	observer.StoreEvent(core.Event{Kind: "ledger back"}) // of an outage that it has not seen begin
	wantValues(t, registry, names, "ledger_accounts_forked_total{} 0", "ledger_accounts_waiting_total{} 0", "ledger_out{} 0", "ledger_outages_total{} 0", "notices_dead_total{} 0")
	for _, e := range []core.Event{
		{Kind: "ledger out"},
		{Kind: "ledger out"},
		{Kind: "ledger back"},
		{Kind: "accounts waiting", Count: 70},
		{Kind: "accounts forked", Count: 3},
		{Kind: "notices failing", Node: "billing", Count: 2},
		{Kind: "notices dead", Node: "billing", Count: 1},
		{Kind: "export failing", Node: "openmeter", Count: 500},
	} {
		observer.StoreEvent(e)
	}
	wantValues(t, registry, append(names, "weblimit_notices_failed_total", "weblimit_exports_failed_total"),
		`exports_failed_total{export="openmeter"} 500`, "ledger_accounts_forked_total{} 3", "ledger_accounts_waiting_total{} 70", "ledger_out{} 1",
		"ledger_outages_total{} 2", "notices_dead_total{} 1", `notices_failed_total{channel="billing"} 2`)
}

// A few time-outs are no outage, neither here nor on the page of inspect: both ask core.Event.Slow.
func TestASlowStoreIsNoOutage(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	for _, e := range []core.Event{
		{Kind: store.EventOutageBegan, Class: store.ClassTimeout},
		{Kind: store.EventOutageEnded, Class: store.ClassTimeout, Count: 1},
		{Kind: store.EventOutageBegan, Class: store.ClassTimeout},
		{Kind: store.EventOutageEnded, Class: store.ClassTimeout, Count: 11},
		{Kind: store.EventOutageBegan, Class: store.ClassConnection},
		{Kind: store.EventOutageEnded, Class: store.ClassConnection, Count: 1},
		{Kind: store.EventOutageBegan, Class: store.ClassTimeout},
	} {
		observer.StoreEvent(e)
	}
	wantValues(t, registry, []string{"weblimit_outages_total", "weblimit_slow_total"}, "outages_total{} 2", "slow_total{} 1")
}

// What books count is added up over all of them, once for each, also where several limiters have one store.
func TestNumbersOfBooks(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	names := []string{
		"weblimit_ledger_accounts", "weblimit_ledger_unwritten_accounts", "weblimit_ledger_units_total", "weblimit_ledger_differences_total",
		"weblimit_notices_delivered_total", "weblimit_notices_pending", "weblimit_exports_sent_total", "weblimit_exports_pending",
	}
	var stores [2]*core.Memory
	for i := range stores {
		stores[i] = core.NewMemory()
		for _, name := range []string{"a", "b"} {
			limiter(t, core.Config{Store: stores[i], Observe: observer, Limits: []core.Limit{perUser(core.PerHour(3)).Named(name)}})
		}
	}
	wantValues(t, registry, names) // there is no book
	var removes [2]func()
	for i := range stores {
		removes[i] = books.Add(stores[i].Registry(), func() books.Stats {
			return books.Stats{
				Accounts: 10, Unwritten: 2,
				Units:       map[string]books.Units{"plan": {Granted: 100, Denied: 7}},
				Differences: map[string]int64{"forked": 1},
				Notices:     map[string]books.Deliveries{"mail\xff": {Done: 3, Pending: 4}},
				Exports:     map[string]books.Deliveries{"meter": {Done: 5, Pending: 6}},
			}
		})
	}
	wantValues(t, registry, names,
		`exports_pending{export="meter"} 6`, `exports_sent_total{export="meter"} 10`,
		"ledger_accounts{} 20",
		`ledger_differences_total{cause="ahead"} 0`, `ledger_differences_total{cause="behind"} 0`, `ledger_differences_total{cause="forgotten"} 0`,
		`ledger_differences_total{cause="forked"} 2`, `ledger_differences_total{cause="not flushed"} 0`, `ledger_differences_total{cause="unknown key"} 0`,
		`ledger_differences_total{cause="unknown limit"} 0`,
		`ledger_units_total{limit="plan",result="denied"} 14`, `ledger_units_total{limit="plan",result="granted"} 200`,
		"ledger_unwritten_accounts{} 4",
		`notices_delivered_total{channel="mail?"} 6`, `notices_pending{channel="mail?"} 4`,
	)
	removes[0]()
	removes[1]()
	wantValues(t, registry, names)
}

func TestReceiversAreBounded(t *testing.T) {
	t.Parallel()
	observer, registry := observe(t, weblimitprom.Config{})
	for i := range 1000 {
		observer.StoreEvent(core.Event{Kind: "notices failing", Node: fmt.Sprintf("channel-%d\xff", i), Count: 1})
	}
	check.Equal(t, "series", len(values(t, registry, "weblimit_notices_failed_total")), 257)
}
