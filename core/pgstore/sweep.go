package pgstore

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// sweepEvery is how often a process that is asked something removes records.
	sweepEvery = time.Second
	// sweepMost is how many records one statement removes, so that it takes some milliseconds.
	sweepMost = 500
	// sweepRounds is how many statements follow each other if there is more to remove.
	sweepRounds = 20
	// sweepTimeout bounds one statement, if Config.Timeout does not give it more time.
	sweepTimeout = 2 * time.Second
)

// sweeper removes records that have ended. Each process does so now and then, without a
// leader: they pass over what others are removing.
type sweeper struct{ next atomic.Int64 }

// sweepSometimes sweeps in the background if it is time. Of flights that end at the same moment, one sweeps.
func (s *Store) sweepSometimes() {
	now, next := int64(monotonic()), s.sweeper.next.Load()
	if now < next || !s.sweeper.next.CompareAndSwap(next, now+int64(sweepEvery)) {
		return
	}
	go func() {
		for range sweepRounds {
			if s.sweep() < sweepMost {
				return
			}
		}
	}()
}

// sweep returns how many records it has removed. After an error others will.
func (s *Store) sweep() (removed int64) {
	ctx, cancel := context.WithTimeout(context.Background(), max(sweepTimeout, s.config.Timeout))
	defer cancel()
	if err := s.pool.QueryRow(ctx, s.sql.sweep, s.setClock(), sweepMost).Scan(&removed); err != nil {
		return 0
	}
	return removed
}
