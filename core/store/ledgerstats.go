package store

import "slices"

// LedgerStats are numbers of the ledgers that keep limits of a store, those of quota.Book, for metrics.
// Counts begin with the process, and are of this process alone.
type LedgerStats struct {
	Accounts  int64 // that this process remembers
	Unwritten int64 // of these, those whose last change is not in the ledger yet

	Units       map[string]LedgerUnits // by limit
	Differences map[string]int64       // that were found between store and ledger, by cause
	Notices     map[string]Deliveries  // by channel
	Exports     map[string]Deliveries  // increments of usage, by export
}

// LedgerUnits are units of the requests under a limit.
type LedgerUnits struct {
	Granted int64 // charged by requests that were allowed
	Denied  int64 // of requests that the limit had no room for
}

// Deliveries are what receivers are sent.
type Deliveries struct {
	Done    int64 // that a receiver has accepted from this process
	Pending int64 // that wait in the ledger, whichever process sends them; of half a minute ago at most, and 100,000 at most
}

// AddLedger adds a ledger that keeps limits of the store, until remove is called. stats must not wait for
// a server.
func (r *Registry) AddLedger(stats func() LedgerStats) (remove func()) {
	r = r.Root()
	l := &stats
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledgers = append(slices.Clone(r.ledgers), l)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ledgers = slices.DeleteFunc(slices.Clone(r.ledgers), func(other *func() LedgerStats) bool { return other == l })
	}
}

// Ledgers returns the numbers of all ledgers that keep limits of the store.
func (r *Registry) Ledgers() []LedgerStats {
	r = r.Root()
	r.mu.Lock()
	ledgers := r.ledgers
	r.mu.Unlock()
	all := make([]LedgerStats, len(ledgers))
	for i, stats := range ledgers {
		all[i] = (*stats)()
	}
	return all
}
