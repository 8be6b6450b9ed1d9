package quota

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// switched is what a process sees of Redis: the server that it takes for the primary. A call reaches one server.
type switched struct {
	store.Store // the first, for all but accounts
	mu          sync.RWMutex
	now         *redisstore.Store // Guarded by mu.
}

func redisAt(t *testing.T, s *redistest.Server) *redisstore.Store {
	t.Helper()
	return redisstore.New(s.ClientWith(t, &redis.Options{
		MaxRetries:  -1,
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute,
	}))
}

func switchedAt(t *testing.T, s *redistest.Server) *switched {
	t.Helper()
	now := redisAt(t, s)
	return &switched{Store: now, now: now}
}

// to has the process take another server for the primary, once its calls have ended.
func (s *switched) to(t *testing.T, server *redistest.Server) {
	t.Helper()
	now := redisAt(t, server)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = now
}

func (s *switched) do(f func(now *redisstore.Store) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return f(s.now)
}

func (s *switched) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.do(func(now *redisstore.Store) error { return now.Take(ctx, checks, results) })
}

func (s *switched) Peek(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.do(func(now *redisstore.Store) error { return now.Peek(ctx, checks, results) })
}

func (s *switched) Restore(ctx context.Context, checks []store.Check, from []counting.Restoration, results []store.Result) error {
	return s.do(func(now *redisstore.Store) error { return now.Restore(ctx, checks, from, results) })
}

// used returns what a server has of an account of the plan.
func (s *switched) used(t *testing.T, key string) int64 {
	t.Helper()
	var account store.Account
	twin := must.Get(counting.LedgerOf(ruleOf(t, monthly(1<<40))))(t)
	must.OK(t, s.Peek(t.Context(), []store.Check{{Key: []byte(key), Rule: twin, Account: &account}}, make([]store.Result, 1)))
	return account.Used
}

// pair are a primary and its replica. A failover swaps them.
type pair struct{ primary, replica *redistest.Server }

func newPair(t *testing.T) *pair {
	t.Helper()
	primary := redistest.StartTCP(t)
	return &pair{primary, redistest.StartReplica(t, primary)}
}

// fork promotes the replica. The old primary goes on until rejoin.
func (p *pair) fork(t *testing.T) {
	t.Helper()
	p.replica.Promote(t)
	p.primary, p.replica = p.replica, p.primary
}

// rejoin has the old primary follow the new one, and lose what it has alone.
func (p *pair) rejoin(t *testing.T) {
	t.Helper()
	p.replica.Follow(t, p.primary)
}

// A replica that has not received everything takes over, again and again, and is charged more often with fewer units. The ledger
// keeps what was written, counts what is charged since, and Redis goes on with the sum.
func TestAReplicaOfRedisTakesOver(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		p := newPair(t)
		view := switchedAt(t, p.primary)
		b := bookOn(t, l, byHand(view))
		limiterOn(t, b.Store(), monthly(1<<40))
		charge := func(units int64) {
			t.Helper()
			(&replicatedBook{Book: b}).charge(t, "tenant:acme", units)
		}
		var granted int64
		for range 3 {
			charge(5)
			p.replica.Received(t, p.primary)
			p.fork(t)
			charge(90) // the new primary never hears of it
			mustFlushBook(t, b)
			charge(10)
			view.to(t, p.primary)
			for range 7 {
				charge(1)
			}
			granted += 5 + 90 + 10 + 7
			wantWritten(t, b, granted)
			check.Equal(t, "units in Redis", view.used(t, "tenant:acme"), granted)
			found := func(d Difference) error { t.Errorf("%+v", d); return nil }
			must.Get(b.Reconcile(t.Context(), false, found))(t)
			p.rejoin(t)
		}
	})
}

// Failovers of Redis under load. Processes hear of them one after the other, and until then charge the old primary, whose
// changes are lost. As long as no process dies, the ledger has exactly what was granted, and so has Redis.
func TestFailoversOfRedisUnderLoad(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		const processes, accounts = 3, 5
		p := newPair(t)
		rule := ruleOf(t, monthly(1<<40))
		var granted [accounts]atomic.Int64
		var books []*Book
		var views []*switched
		stop := make(chan struct{})
		var load sync.WaitGroup
		for n := range processes {
			view := switchedAt(t, p.primary)
			b := bookOn(t, l, Config{Store: view, FlushEvery: 10 * time.Millisecond})
			limiterOn(t, b.Store(), monthly(1<<40))
			books, views = append(books, b), append(views, view)
			for caller := range 2 {
				r := rand.New(rand.NewPCG(uint64(n), uint64(caller)))
				load.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						account := r.IntN(accounts)
						checks, results := []store.Check{{Key: []byte{'a' + byte(account)}, Rule: rule, Cost: 1 + r.Int64N(9)}}, make([]store.Result, 1)
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						err := b.Store().Take(ctx, checks, results)
						cancel()
						if err != nil || !results[0].Charged {
							t.Errorf("%+v, %v", results[0], err)
							return
						}
						granted[account].Add(checks[0].Cost)
						time.Sleep(time.Millisecond) // a load, and not all that the machine can do
					}
				})
			}
		}
		sum := func() (n int64) {
			for i := range granted {
				n += granted[i].Load()
			}
			return n
		}
		// more waits until more was granted, whatever the machine does.
		more := func() {
			for before := sum(); sum() < before+300 && !t.Failed(); {
				time.Sleep(time.Millisecond) // requests come on and on, and say nothing
			}
		}
		for range long.Rounds(3, 40) {
			more()
			p.fork(t)
			for _, view := range views {
				more()
				view.to(t, p.primary)
			}
			p.rejoin(t)
		}
		close(stop)
		load.Wait()
		for range 2 {
			mustFlushBook(t, books...)
			must.Get(books[0].Reconcile(t.Context(), true, nil))(t)
		}
		for i := range granted {
			key := string(rune('a' + i))
			check.Equal(t, key+": units in the ledger", books[0].total(t, "plan", key), granted[i].Load())
			peek := []store.Check{{Key: []byte(key), Rule: rule, Account: new(store.Account)}}
			must.OK(t, books[0].Store().Peek(t.Context(), peek, make([]store.Result, 1)))
			check.Equal(t, key+": units in Redis", peek[0].Account.Used, granted[i].Load())
		}
	})
}
