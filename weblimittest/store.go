package weblimittest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/testclock"
)

// Store is a [core.Store] in memory for one test. The test moves its clock, and chooses which
// clients are at their limits and whether the store answers. Everything else is as in production:
// it decides as a store on Redis would.
//
// Its clock stands still, so a request neither refills a bucket nor crosses the end of a window,
// however slow the machine is. It begins on 1 January 2000, 0:00 UTC. Refills, windows, leases,
// blocks, Retry-After, headers and the buckets that stand in for the store in an outage go by it.
// Requests that are delayed (Wait, LeakyBucket, SlowDown), timeouts and [core.Load] go by the
// process's clock.
//
// In a bubble of testing/synctest there is one clock for all of that: the store goes by the
// bubble's, and [Store.Advance] sleeps.
//
// A Store is safe for concurrent use.
type Store struct {
	memory
	t     testing.TB
	clock *clock

	mu    sync.Mutex
	at    atomic.Int64               // when the memory store decides instead of now, 0 for now
	known map[string]bool            // the names of limits. Guarded by mu.
	asked map[string]map[string]bool // by the name of a limit, the keys of its checks. Guarded by mu.
	marks []*mark                    // Guarded by mu.
	mode  mode                       // Guarded by mu.
	back  chan struct{}              // closed when the mode changes. Guarded by mu.
}

// memory keeps the embedded store out of the exported fields.
type memory = core.Store

var _ core.Store = (*Store)(nil)

// mode is whether a store answers.
type mode uint8

const (
	answering mode = iota
	failing
	hanging
)

// errAway is what a store on Redis returns whose server refuses connections.
var errAway = &store.Error{Class: store.ClassConnection, Err: errors.New("weblimittest: Fail was called")}

// New returns an empty store. Make one for each test, and hand it to the function that builds the
// application: then tests can call t.Parallel, and none sees the requests of another. In a bubble
// of testing/synctest, make it in the bubble.
func New(t testing.TB) *Store {
	t.Helper()
	inside := core.NewMemory()
	s := &Store{
		memory: inside, t: t, clock: newClock(),
		known: map[string]bool{}, asked: map[string]map[string]bool{}, back: make(chan struct{}),
	}
	testclock.Set(inside, s.decidesAt)
	testclock.SetLocal(s, s.clock.micros)
	_ = s.Registry().OnRegister(func(d store.Declaration) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known[d.Rule.Name] = true
		return nil
	})
	t.Cleanup(s.end)
	return s
}

// end lets go of calls that hang, and explains marks that no request has met to a test that failed.
func (s *Store) end() {
	s.Recover()
	if s.t.Failed() {
		for _, text := range s.unmet() {
			s.t.Log(text)
		}
	}
}

// Now returns the time of the store's clock.
func (s *Store) Now() time.Time { return time.UnixMicro(s.clock.micros()).UTC() }

// Advance moves the clock forward. To reach a date, advance by date.Sub(store.Now()).
//
// In a bubble of testing/synctest it sleeps for d, which moves all clocks of the bubble.
func (s *Store) Advance(d time.Duration) {
	s.t.Helper()
	if d < 0 {
		s.t.Fatalf("weblimittest: Advance(%v): the clock can't go back", d)
	}
	s.clock.advance(d)
}

// Fail has the store fail at once from now on, as one does whose server refuses connections.
// What requests get then is up to their limits: see [core.Limit.OnOutage].
func (s *Store) Fail() { s.become(failing) }

// Hang has the store take requests and never answer, as a server does that is overloaded or cut
// off. A request waits for Config.Timeout of its limiter, 100 ms by default, and in a bubble of
// testing/synctest it takes no time. Then it is as after [Store.Fail].
func (s *Store) Hang() { s.become(hanging) }

// Recover ends Fail and Hang. The store has forgotten nothing.
func (s *Store) Recover() { s.become(answering) }

func (s *Store) become(m mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = m
	close(s.back)
	s.back = make(chan struct{})
}

// Keys returns the keys that requests were counted by, under all limits, sorted, and each once. It
// shows what the store learns of clients, and the spelling of a key for [Store.Exhaust].
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for _, keys := range s.asked {
		maps.Copy(all, keys)
	}
	return slices.Sorted(maps.Keys(all))
}

// answers waits until the store answers, and returns an error if it does not. The caller holds
// s.mu if there is no error.
func (s *Store) answers(ctx context.Context) error {
	for {
		s.mu.Lock()
		m, back := s.mode, s.back
		switch m {
		case answering:
			return nil
		case failing:
			s.mu.Unlock()
			return errAway
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-back:
		}
	}
}

// note notes the key of a request's check. The caller holds s.mu.
func (s *Store) note(check *core.Check) {
	keys := s.asked[check.Rule.Name]
	if keys == nil {
		keys = map[string]bool{}
		s.asked[check.Rule.Name] = keys
	}
	keys[string(check.Key)] = true
}

// decidesAt is the clock of the memory store.
func (s *Store) decidesAt() int64 {
	if at := s.at.Load(); at != 0 {
		return at
	}
	return s.clock.micros()
}

// call has the memory store do something with checks, if the store answers.
func (s *Store) call(ctx context.Context, checks []core.Check, do func() error) error {
	if err := s.answers(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for i := range checks {
		s.meet(&checks[i])
	}
	return do()
}

// Take implements [core.Store].
func (s *Store) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.call(ctx, checks, func() error {
		for i := range checks {
			s.note(&checks[i])
		}
		return s.memory.Take(ctx, checks, results)
	})
}

// Peek implements [core.Store].
func (s *Store) Peek(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.call(ctx, checks, func() error { return s.memory.Peek(ctx, checks, results) })
}

// Charge implements [core.Store].
func (s *Store) Charge(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.call(ctx, checks, func() error { return s.memory.Charge(ctx, checks, results) })
}

// Refund implements [core.Store].
func (s *Store) Refund(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.call(ctx, checks, func() error { return s.memory.Refund(ctx, checks, results) })
}

// Renew implements [core.Store].
func (s *Store) Renew(ctx context.Context, checks []core.Check, results []core.Result) error {
	return s.call(ctx, checks, func() error { return s.memory.Renew(ctx, checks, results) })
}

// Reset implements [core.Store].
func (s *Store) Reset(ctx context.Context, checks []core.Check) error {
	return s.call(ctx, checks, func() error { return s.memory.Reset(ctx, checks) })
}

// Block implements [core.Store]. Tests block clients by [Store.BlockFor].
func (s *Store) Block(ctx context.Context, checks []core.Check, d time.Duration) error {
	return s.call(ctx, checks, func() error { return s.memory.Block(ctx, checks, d) })
}

// Unblock implements [core.Store].
func (s *Store) Unblock(ctx context.Context, checks []core.Check) error {
	return s.call(ctx, checks, func() error { return s.memory.Unblock(ctx, checks) })
}

// Blocks implements [core.Store].
func (s *Store) Blocks(ctx context.Context, rules []*core.Rule) iter.Seq2[store.Blocked, error] {
	return func(yield func(store.Blocked, error) bool) {
		var found []store.Blocked
		var failed error
		err := s.call(ctx, s.markedUnder(rules), func() error {
			for b, err := range s.memory.Blocks(ctx, rules) {
				if err != nil {
					failed = err
					break
				}
				found = append(found, b)
			}
			return failed
		})
		for _, b := range found {
			if !yield(b, nil) {
				return
			}
		}
		if err != nil {
			yield(store.Blocked{}, err)
		}
	}
}
