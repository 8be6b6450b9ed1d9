package books

import (
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/store"
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

// shelf is attached to the Registry of a store: the books that keep limits of it.
type shelf struct {
	mu    sync.Mutex
	books []*func() Stats // replaced, and not changed. Guarded by mu.
}

// shelfKey is the key under which it is attached.
type shelfKey struct{}

func shelfOf(r *store.Registry) *shelf {
	return r.Attach(shelfKey{}, func() any { return new(shelf) }).(*shelf)
}

// Add adds a book that keeps limits of the store, until remove is called. stats must not wait for
// a server.
func Add(r *store.Registry, stats func() Stats) (remove func()) {
	s, b := shelfOf(r), &stats
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books = append(slices.Clone(s.books), b)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.books = slices.DeleteFunc(slices.Clone(s.books), func(other *func() Stats) bool { return other == b })
	}
}

// All returns the numbers of all books that keep limits of the store.
func All(r *store.Registry) []Stats {
	s := shelfOf(r)
	s.mu.Lock()
	books := s.books
	s.mu.Unlock()
	all := make([]Stats, len(books))
	for i, stats := range books {
		all[i] = (*stats)()
	}
	return all
}
