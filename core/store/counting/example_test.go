package counting_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/keyfuncs"
)

// mapStore is a store over a map. Any database that can read, change and write back as one
// step can do the same. Unlike a store for real use, it never removes keys that expired.
type mapStore struct {
	store.Base
	now func() int64 // microseconds since the epoch

	mu        sync.Mutex
	buckets   map[id]counting.Bucket      // Guarded by mu.
	manual    map[id]counting.ManualBlock // Guarded by mu.
	penalties map[id]counting.Penalty     // Guarded by mu.
	marks     map[string]counting.Mark    // Guarded by mu.
}

// id identifies a bucket and a penalty.
type id struct {
	key  string
	rule uint64
}

func newMapStore(now func() int64) *mapStore {
	m := &mapStore{
		now: now, buckets: map[id]counting.Bucket{}, manual: map[id]counting.ManualBlock{}, penalties: map[id]counting.Penalty{},
		marks: map[string]counting.Mark{},
	}
	m.Registry().SetServer(store.Server{InProcess: true, Buckets: m.len}) // a store that processes share says how they swap values instead
	counting.SetRestorer(m, m)
	return m
}

func (m *mapStore) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.buckets)
}

func idOf(c *store.Check) id       { return id{string(c.Key), c.Rule.ID()} }
func markOf(c *store.Check) string { return fmt.Sprintf("%q %d %q", c.Key, c.Rule.ID(), c.Once) }

// update reads the states of checks, calls change, and writes back what has changed.
func (m *mapStore) update(checks []store.Check, change func(now int64, states []counting.State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := make([]counting.State, len(checks))
	for i := range checks {
		id := idOf(&checks[i])
		states[i] = counting.State{Bucket: m.buckets[id], Manual: m.manual[id], Penalty: m.penalties[id], Mark: m.marks[markOf(&checks[i])]}
	}
	change(m.now(), states)
	for i := range checks {
		s := &states[i]
		if s.BucketChanged {
			m.buckets[idOf(&checks[i])] = s.Bucket
		}
		if s.ManualChanged {
			m.manual[idOf(&checks[i])] = s.Manual
		}
		if s.PenaltyChanged {
			m.penalties[idOf(&checks[i])] = s.Penalty
		}
		if s.MarkChanged {
			m.marks[markOf(&checks[i])] = s.Mark
		}
	}
}

// answer is update for the methods that have results.
func (m *mapStore) answer(checks []store.Check, results []store.Result, change func(now int64, states []counting.State)) error {
	if err := counting.ValidChecks(checks, results); err != nil {
		return err
	}
	m.update(checks, change)
	return nil
}

func (m *mapStore) decide(checks []store.Check, results []store.Result, take bool) error {
	return m.answer(checks, results, func(now int64, states []counting.State) {
		counting.Decide(now, checks, states, take)
		counting.Answer(checks, states, results)
	})
}

func (m *mapStore) Take(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.decide(checks, results, true)
}

func (m *mapStore) Peek(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.decide(checks, results, false)
}

func (m *mapStore) Charge(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.answer(checks, results, func(now int64, states []counting.State) { counting.Charge(now, checks, states, results) })
}

func (m *mapStore) Refund(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.answer(checks, results, func(now int64, states []counting.State) { counting.Refund(now, checks, states, results) })
}

func (m *mapStore) Renew(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.answer(checks, results, func(now int64, states []counting.State) { counting.Renew(now, checks, states, results) })
}

// Restore makes the store a counting.Restorer, for limits whose use is kept in a book.
func (m *mapStore) Restore(_ context.Context, checks []store.Check, from []counting.Restoration, results []store.Result) error {
	if err := counting.ValidRestore(checks, from, results); err != nil {
		return err
	}
	m.update(checks, func(now int64, states []counting.State) { counting.Restore(now, checks, from, states, results) })
	return nil
}

func (m *mapStore) Reset(_ context.Context, checks []store.Check) error {
	if err := counting.ValidKeys(checks); err != nil {
		return err
	}
	m.update(checks, func(_ int64, states []counting.State) { counting.Reset(checks, states) })
	return nil
}

func (m *mapStore) Block(_ context.Context, checks []store.Check, d time.Duration) error {
	if err := errors.Join(counting.ValidKeys(checks), store.ValidBlockTime(d)); err != nil {
		return err
	}
	m.update(checks, func(now int64, states []counting.State) { counting.BlockKeys(now, checks, states, d) })
	return nil
}

func (m *mapStore) Unblock(_ context.Context, checks []store.Check) error {
	if err := counting.ValidKeys(checks); err != nil {
		return err
	}
	m.update(checks, func(_ int64, states []counting.State) { counting.UnblockKeys(checks, states) })
	return nil
}

func (m *mapStore) Blocks(_ context.Context, rules []*store.Rule) iter.Seq2[store.Blocked, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []store.Blocked
	for _, rule := range rules {
		for id, b := range m.manual {
			if id.rule == rule.ID() && b.Until > m.now() {
				all = append(all, store.Blocked{Limit: rule.Name, Key: id.key, Until: time.UnixMicro(b.Until)})
			}
		}
		for id, p := range m.penalties {
			if id.rule == rule.ID() && p.Until > m.now() {
				all = append(all, store.Blocked{Limit: rule.Name, Key: id.key, Until: time.UnixMicro(p.Until), Level: p.Level})
			}
		}
	}
	return func(yield func(store.Blocked, error) bool) {
		for _, b := range all {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// A custom store keeps states, and this package counts.
func Example() {
	var s store.Store = newMapStore(func() int64 { return time.Now().UnixMicro() })
	limiter := core.ForLimits(s, []core.Limit{core.PerHour(2).By(keyfuncs.ClientIP())})
	for range 3 {
		fmt.Println(limiter.AllowKey(context.Background(), "ip:192.0.2.1", 1).Allowed)
	}
	// Output:
	// true
	// true
	// false
}
