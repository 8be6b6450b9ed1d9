package pgstore

import (
	"context"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// breakerFailures is how many failures in a row open the breaker: flights with an error,
	// and calls whose time ran out.
	breakerFailures = 5
	// fairTime is the time that a call must have had for its timeout to count. A shorter one
	// says more about the caller than about the server.
	fairTime = 50 * time.Millisecond
	// probeEvery is how often an open breaker lets the server be asked, if there are calls.
	probeEvery = 500 * time.Millisecond
	// probeTimeout bounds a probe.
	probeTimeout = 2 * time.Second
)

// breaker keeps calls from a server that does not answer: they fail at once rather than at
// their deadlines. While it is open, refused calls start a probe now and then, which nobody
// waits for. A probe that is answered closes the breaker.
type breaker struct {
	mu       sync.Mutex
	failures int           // Guarded by mu. In a row.
	answer   time.Duration // Guarded by mu. When the last answer came.
	cause    *store.Error  // Guarded by mu. Set while it is open.
	opened   time.Duration // Guarded by mu.
	probe    time.Duration // Guarded by mu. When the next one is due.
	probing  bool          // Guarded by mu.
}

// refuses returns an error if the server is not to be asked.
func (b *breaker) refuses(s *Store) *store.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause == nil {
		return nil
	}
	if now := monotonic(); !b.probing && now >= b.probe {
		b.probing = true
		go b.ask(s)
	}
	return &store.Error{Class: store.ClassOpen, Node: s.node, Err: b.cause}
}

// ask sends a probe, which writes nothing.
func (b *breaker) ask(s *Store) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout+grace)
	defer cancel()
	err := s.probe(ctx)
	if err == nil {
		b.answered(ctx, s)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing, b.probe = false, monotonic()+probeEvery
	if err != nil && b.cause != nil {
		b.cause = s.errorOf(err)
	}
}

// probe asks the server to write nothing, as it asks to write something.
func (s *Store) probe(ctx context.Context) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer s.release(conn)
	low, high, err := s.time(ctx, conn)
	if err != nil {
		return err
	}
	var a answer
	return a.scan(conn.QueryRow(ctx, s.sql.swap, s.swapArgs(ctx, newRequest(nil, low, high, nil))...))
}

// answered notes the answer to a flight, which ends the failures if it came in time.
func (b *breaker) answered(ctx context.Context, s *Store) {
	if timeLeft(ctx) <= 0 {
		return
	}
	b.mu.Lock()
	b.failures, b.answer = 0, monotonic()
	wasOpen, opened := b.cause != nil, b.opened
	b.cause = nil
	b.mu.Unlock()
	if wasOpen {
		s.Registry().Report(store.Event{Kind: store.EventBreakerClosed, Node: s.node, Duration: monotonic() - opened})
	}
}

// failed notes a flight that was not answered, for another reason than time.
func (b *breaker) failed(s *Store, err *store.Error) {
	switch err.Class {
	case store.ClassBusy, store.ClassValue: // about a record, and not about the server
	case store.ClassTimeout: // noted by ranOut
	default:
		b.count(s, err)
	}
}

// ranOut notes a call whose time ran out. One that waited for others, in the queue or for a lock, tells of the
// server only if that has answered nobody meanwhile: otherwise one locked row with many callers would be
// an outage of all keys.
func (b *breaker) ranOut(s *Store, had time.Duration, waited bool, err *store.Error) {
	if had < fairTime || err.Class != store.ClassTimeout {
		return
	}
	b.mu.Lock()
	answered := b.answer > monotonic()-had
	b.mu.Unlock()
	if waited && answered {
		return
	}
	b.count(s, err)
}

func (b *breaker) count(s *Store, err *store.Error) {
	b.mu.Lock()
	b.failures++
	opens := b.cause == nil && b.failures >= breakerFailures
	if opens {
		b.cause, b.opened = err, monotonic()
		b.probe = b.opened + probeEvery
	}
	b.mu.Unlock()
	if opens {
		s.Registry().Report(store.Event{Kind: store.EventBreakerOpened, Class: err.Class, Node: s.node, Err: err})
	}
}
