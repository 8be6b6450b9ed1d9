package pgstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
)

const (
	// fairTime is the time that a call must have had for its timeout to count. A shorter one
	// says more about the caller than about the server.
	fairTime = 50 * time.Millisecond
	// probeTimeout bounds a probe.
	probeTimeout = 2 * time.Second
)

// health keeps calls from a server that does not answer: they fail at once rather than at
// their deadlines. Failures are flights with an error, and calls whose time ran out. While it is
// open, refused calls start a probe now and then, which nobody waits for. Any answer in time closes the breaker.
type health struct {
	breaker  breaker.Breaker
	answered atomic.Int64 // when, by monotonic
}

// refuse returns an error if the server is not to be asked.
func (s *Store) refuse() *store.Error {
	b := &s.health.breaker
	if !b.IsOpen() {
		return nil
	}
	if b.TryProbe(breaker.Forever) {
		go s.askAgain()
	}
	return &store.Error{Class: store.ClassOpen, Node: s.node, Err: b.Cause()}
}

// askAgain sends a probe, which writes nothing.
func (s *Store) askAgain() {
	defer s.health.breaker.Again()
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout+grace)
	defer cancel()
	if err := s.probe(ctx); err != nil {
		s.health.breaker.StaysOpen(s.errorOf(err))
		return
	}
	s.answered(ctx)
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
func (s *Store) answered(ctx context.Context) {
	if timeLeft(ctx) <= 0 {
		return
	}
	s.health.answered.Store(int64(monotonic()))
	if open := s.health.breaker.Close(); open > 0 {
		s.Registry().Report(store.Event{Kind: store.EventBreakerClosed, Node: s.node, Duration: open})
	}
}

// noteFailure notes a flight that was not answered, for another reason than time.
func (s *Store) noteFailure(err *store.Error) {
	switch err.Class {
	case store.ClassBusy, store.ClassValue: // about a record, and not about the server
	case store.ClassTimeout: // noted by noteTimeout
	default:
		s.countFailure(err)
	}
}

// noteTimeout notes a call whose time ran out. One that waited for others, in the queue or for a lock, tells of the
// server only if that has answered nobody meanwhile: otherwise one locked row with many callers would be
// an outage of all keys.
func (s *Store) noteTimeout(had time.Duration, waited bool, err *store.Error) {
	answered := time.Duration(s.health.answered.Load()) > monotonic()-had
	if had < fairTime || err.Class != store.ClassTimeout || waited && answered {
		return
	}
	s.countFailure(err)
}

func (s *Store) countFailure(err *store.Error) {
	if s.health.breaker.Failed(err) {
		s.Registry().Report(store.Event{Kind: store.EventBreakerOpened, Class: err.Class, Node: s.node, Err: err})
	}
}
