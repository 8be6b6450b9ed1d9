package prefetch

// Gives unspent units back to the store, in the background and in few calls.

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// maxReturns bounds what waits to be returned: all slices that there can be.
	maxReturns = 2 * tableSets * tableWays

	// returnsAtOnce bounds what one call returns, and so how long it keeps the store
	// busy.
	returnsAtOnce = 32
)

// returns are units on their way back. One goroutine at a time returns them. When
// nothing waits, none runs.
type returns struct {
	mu      sync.Mutex
	waiting []unspent // guarded by mu
	running bool      // a goroutine runs, or is about to. Guarded by mu.
}

// unspent is what is left of a slice.
type unspent struct {
	key   *hotKey
	at    int64 // when the units were charged, for the refund
	units int64
}

// giveBack returns units of a slice in the background, if that is worth a call.
// Units that can't be returned stay charged until the window is over or the bucket
// has refilled.
func (p *Prefetcher) giveBack(k *hotKey, s *slice, units int64) {
	if units <= 0 || s.lastOfWindow && p.clock.Now() >= s.expires {
		return
	}
	r := &p.returns
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == maxReturns {
		return
	}
	at := s.chargedAt
	if k.rule.Algorithm == store.TokenBucket {
		// A refund gives a bucket nothing that it has regained since the charge, for
		// that may have overflowed a full bucket. But by what the store said when it
		// charged the slice, the bucket was not full until resetAfter had passed. So
		// only what it regained after that is withheld.
		at += s.resetAfter
	}
	r.waiting = append(r.waiting, unspent{k, at, units})
	if !r.running {
		r.running = true
		p.clock.After(0, p.returnAll)
	}
}

// returnAll returns what waits, until nothing does.
func (p *Prefetcher) returnAll() {
	checks, results := make([]store.Check, 0, returnsAtOnce), make([]store.Result, 0, returnsAtOnce)
	for {
		checks, results = p.returns.next(checks[:0], results[:0])
		if len(checks) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), p.patience)
		_ = p.source.Refund(ctx, checks, results) // once: a refund that failed may have been done
		cancel()
	}
}

// next takes what the next call returns. No two of its checks have the same key and
// limit. If nothing waits, the goroutine has to end.
func (r *returns) next(checks []store.Check, results []store.Result) ([]store.Check, []store.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for ; n < len(r.waiting) && n < returnsAtOnce; n++ {
		u := &r.waiting[n]
		if slices.ContainsFunc(checks, func(c store.Check) bool { return u.key.rule.ID() == c.Rule.ID() && bytes.Equal(u.key.key, c.Key) }) {
			break
		}
		checks = append(checks, store.Check{Key: u.key.key, Rule: &u.key.rule, Cost: u.units})
		results = append(results, store.Result{Charged: true, At: u.at})
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
	r.running = n > 0
	return checks, results
}

// forget drops what waits of a key: the store has forgotten the charge.
func (r *returns) forget(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(u unspent) bool { return u.key.hash == hash })
}
