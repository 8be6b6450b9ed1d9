package prefetch

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// maxReturns bounds what waits to be returned: all grants there can be.
	maxReturns = 2 * tableSets * tableWays

	// returnsAtOnce bounds what one call returns, and so how long it holds the store.
	returnsAtOnce = 32
)

// returns are units on their way back. One call at a time takes them, in the
// background; when nothing waits, nothing runs.
type returns struct {
	mu      sync.Mutex
	waiting []back // guarded by mu
	running bool   // guarded by mu
}

// back is what is left of a grant.
type back struct {
	entry *entry
	at    int64
	units int64
}

// giveBack returns units of a grant, in the background, if that is worth a call.
// What can't be returned stays charged until time returns it.
func (l *Prefetcher) giveBack(e *entry, g *grant, units int64) {
	if units <= 0 || !g.worth {
		return
	}
	r := &l.returns
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == maxReturns {
		return
	}
	at := g.at
	if e.rule.Algorithm == store.TokenBucket {
		// A bucket is not given back what it has regained since a charge, for that
		// may have been lost in a full bucket. By what it said when it charged the
		// slice, it was not full for so long.
		at += g.reset
	}
	r.waiting = append(r.waiting, back{e, at, units})
	if !r.running {
		r.running = true
		l.clock.After(0, l.returnAll)
	}
}

// returnAll returns what waits.
func (l *Prefetcher) returnAll() {
	checks, results := make([]store.Check, 0, returnsAtOnce), make([]store.Result, 0, returnsAtOnce)
	for {
		checks, results = l.returns.next(checks[:0], results[:0])
		if len(checks) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), returnTimeout)
		_ = l.source.Refund(ctx, checks, results) // not again: it may have been done
		cancel()
	}
}

// next takes the next call's returns, none of which is of the same key and limit.
func (r *returns) next(checks []store.Check, results []store.Result) ([]store.Check, []store.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for ; n < len(r.waiting) && n < returnsAtOnce; n++ {
		b := &r.waiting[n]
		if slices.ContainsFunc(checks, func(c store.Check) bool { return b.entry.rule.ID() == c.Rule.ID() && bytes.Equal(b.entry.key, c.Key) }) {
			break
		}
		checks = append(checks, store.Check{Key: b.entry.key, Rule: &b.entry.rule, Cost: b.units})
		results = append(results, store.Result{Charged: true, At: b.at})
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
	r.running = n > 0
	return checks, results
}

// forget drops what waits of a key: the store does not know of it any more.
func (r *returns) forget(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(b back) bool { return b.entry.hash == hash })
}
