package service

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// marks remember in the store what has happened once, so that it does not happen again in any process.
// A mark is a bucket of one unit that comes back when nothing can ask for it any more.
type marks struct {
	store core.Store
	rule  store.Rule
}

// markName is the name under which marks count. Nothing else has their keys, which are random.
const markName = "weblimit.once"

// claimTries is how often a mark is asked for whose answer got lost.
const claimTries = 3

// init prepares marks that last at least twice ttl, since clocks differ.
func (m *marks) init(s core.Store, ttl time.Duration) (err error) {
	last := 2 * ttl
	m.store = s
	// The one unit is back after last, and the operation of a claim is known as long. Repeats is far above
	// claimTries, since the client of a store may repeat a call by itself.
	m.rule, err = store.NewRule(markName, store.Numbers{Algorithm: store.TokenBucket, Quota: 1, Window: last, Burst: 1, Once: last, Repeats: 1000})
	return err
}

// claim sets the mark of a key, and returns false if it was set before. After an error it may be set.
//
// A claim whose answer gets lost is repeated as the same operation, so that this call learns whether
// it was the one that has set the mark.
func (m *marks) claim(ctx context.Context, key []byte) (first bool, err error) {
	var once [16]byte
	if _, err := rand.Read(once[:]); err != nil {
		return false, err
	}
	checks := []store.Check{{Key: key, Rule: &m.rule, Cost: 1, Once: once[:]}}
	results := make([]store.Result, 1)
	for range claimTries {
		bounded, cancel := context.WithTimeout(ctx, store.DefaultTimeout)
		err = m.store.Take(bounded, checks, results)
		cancel()
		if err == nil {
			return results[0].Allowed, nil
		}
	}
	return false, err
}

// has reports of which keys the marks are set. The keys differ.
func (m *marks) has(ctx context.Context, keys ...[]byte) ([]bool, error) {
	bounded, cancel := context.WithTimeout(ctx, store.DefaultTimeout)
	defer cancel()
	checks, results, set := make([]store.Check, len(keys)), make([]store.Result, len(keys)), make([]bool, len(keys))
	for i, key := range keys {
		checks[i] = store.Check{Key: key, Rule: &m.rule, Cost: 1}
	}
	err := m.store.Peek(bounded, checks, results)
	for i := range results {
		set[i] = !results[i].Allowed
	}
	return set, err
}
