package books

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/shelf"
)

// Stats are numbers of a book that keeps limits of a store, for metrics.
// Counts begin with the process, and are of this process alone.
type Stats struct {
	Accounts  int64 // that this process remembers
	Unwritten int64 // of these, those whose last change is not in the ledger yet

	Units       map[string]Units      // by limit
	Differences map[string]int64      // that were found between store and ledger, by cause
	Notices     map[string]Deliveries // by channel
	Exports     map[string]Deliveries // increments of usage, by export
}

// Units are units of the requests under a limit.
type Units struct {
	Granted int64 // charged by requests that were allowed
	Denied  int64 // of requests that the limit had no room for
}

// Deliveries are what receivers are sent.
type Deliveries struct {
	Done    int64 // that a receiver has accepted from this process
	Pending int64 // that wait in the ledger, whichever process sends them; of half a minute ago at most, and 100,000 at most
}

// Add adds a book that keeps limits of the store, until remove is called. stats must not wait for
// a server.
func Add(r *store.Registry, stats func() Stats) (remove func()) { return shelf.Add(r, stats) }

// All returns the numbers of all books that keep limits of the store.
func All(r *store.Registry) []Stats { return shelf.All[Stats](r) }
