package quota

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/quota/internal/delivery"
)

// The kinds of events that a book raises, for those who hear of the events of its store: see [store.Registry.OnEvent].
const (
	EventLedgerOut       store.EventKind = "ledger out"            // the ledger does not answer; what was used waits
	EventLedgerBack      store.EventKind = "ledger back"           // it has answered again
	EventAccountsWaiting store.EventKind = "accounts waiting"      // accounts that are not remembered in this process, which is full; the store knows them
	EventAccountsForked  store.EventKind = "accounts forked"       // accounts of which the store had lost changes that the ledger has
	EventFailoversUnseen store.EventKind = "failovers unseen"      // the store can't tell when another server takes over, and what is lost then; said once
	EventNoticesFailing                  = delivery.NoticesFailing // attempts to deliver notices failed; they are tried again
	EventNoticesDead                     = delivery.NoticesDead    // a notice is not tried any more
	EventExportFailing                   = delivery.ExportFailing  // a receiver did not accept usage, which is sent again

	EventLimitUnknown       store.EventKind = "limit unknown"         // the configuration names a limit that no process has; said once in each process
	EventLedgerClockSetBack store.EventKind = "ledger clock set back" // the clock of the ledger was set back, or a server took over whose clock lags; once in each process
)

// The classes of errors of requests for whose account the store waits for the ledger.
const (
	ClassLedger     store.Class = "ledger"      // the ledger is away
	ClassLedgerLate store.Class = "ledger late" // it is not, and did not tell in time, since it is asked for very many accounts: see [store.Error]
)
