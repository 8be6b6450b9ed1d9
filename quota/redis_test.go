package quota

import (
	"context"
	"errors"
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

// shelf is the part of the shared Redis server that belongs to one test, and a client that waits for the
// server on a busy machine.
type shelf struct {
	*redis.Client
	prefix string
}

func onRedis(t *testing.T) shelf {
	t.Helper()
	return shelf{redistest.Shared(t).ClientWith(t, &redis.Options{
		MaxRetries:  -1,
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute,
	}), redistest.Prefix(t)}
}

func (s shelf) store() store.Store {
	return redisstore.New(s.Client, redisstore.Config{Prefix: s.prefix})
}

// empty removes all keys at once, as FLUSHALL does.
func (s shelf) empty(ctx context.Context) error {
	const all = `for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end`
	err := s.Eval(ctx, all, nil, s.prefix).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// dump returns all keys and their values.
func (s shelf) dump(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, key := range must.Get(s.Keys(t.Context(), s.prefix+"*").Result())(t) {
		all[key] = must.Get(s.Dump(t.Context(), key).Result())(t)
	}
	if len(all) == 0 {
		t.Fatal("there are no keys")
	}
	return all
}

func (s shelf) restore(t *testing.T, all map[string]string) {
	t.Helper()
	for key, value := range all {
		must.OK(t, s.RestoreReplace(t.Context(), key, time.Hour, value).Err())
	}
}

// Redis is emptied again and again under load. What is admitted beyond the quota is at most what
// was charged in one flush interval before each time, and the ledger has every unit that
// was granted and is known to a process.
func TestRedisFlushedUnderLoad(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		const processes, every = 3, 40 * time.Millisecond
		quota := long.Rounds[int64](1000, 20_000)
		rdb := onRedis(t)
		rule := ruleOf(t, monthly(quota))
		var granted, flushes atomic.Int64
		var rate atomic.Int64 // most units that were granted in one interval
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var group sync.WaitGroup
		var books []*Book
		for range processes {
			b := bookOn(t, l, Config{Store: rdb.store(), FlushEvery: every})
			books = append(books, b)
			for range 4 {
				group.Go(func() {
					checks, results := []store.Check{{Key: []byte("tenant:acme"), Rule: rule, Cost: 1}}, make([]store.Result, 1)
					for denied := 0; ctx.Err() == nil && denied < 50; {
						if err := b.Store().Take(ctx, checks, results); err != nil {
							continue
						}
						if !results[0].Charged {
							denied++
						} else {
							granted.Add(1)
						}
						time.Sleep(rand.N(8 * time.Millisecond)) // clients come one after the other, during many intervals
					}
				})
			}
		}
		stop := make(chan struct{})
		var chaos sync.WaitGroup
		chaos.Go(func() {
			last := int64(0)
			for {
				select {
				case <-stop:
					return
				case <-time.After(every):
				}
				now := granted.Load()
				rate.Store(max(rate.Load(), now-last))
				last = now
				if flushes.Load() < 10 {
					check.OK(t, rdb.empty(ctx))
					flushes.Add(1)
				}
			}
		})
		group.Wait()
		close(stop)
		chaos.Wait()
		mustFlushBook(t, books...)
		ledgerHas := books[0].total(t, "plan", "tenant:acme")
		bound := flushes.Load() * rate.Load()
		t.Logf("Redis was emptied %d times: %d units of %d granted, %d over; bound %d (%d in the busiest interval of %v)",
			flushes.Load(), granted.Load(), quota, granted.Load()-quota, bound, rate.Load(), every)
		if granted.Load() < quota || granted.Load() > quota+bound {
			t.Errorf("granted %d units of %d, beyond the bound of %d", granted.Load(), quota, bound)
		}
		check.Equal(t, "units in the ledger", ledgerHas, granted.Load())
	})
}

// A replica that had not received everything takes over: an older record is written back.
func TestAnOlderRecordComesBack(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		rdb := onRedis(t)
		b := bookOn(t, l, byHand(rdb.store()))
		take := func(n int64) (a store.Account) {
			t.Helper()
			for range n {
				checks, _ := takeFrom(t, b, "tenant:acme", 1)
				a = *checks[0].Account
			}
			return a
		}
		take(50)
		older := rdb.dump(t)
		take(30)
		mustFlushBook(t, b)
		rdb.restore(t, older)
		take(10)
		wantWritten(t, b, 80) // that it knew
		a := take(1)
		if a.Used != 81 || counting.Generation(a.Position) != 3 {
			t.Errorf("after it was found out: used %d in generation %d, want 81 in 3", a.Used, counting.Generation(a.Position))
		}
		take(4)
		wantWritten(t, b, 85)
	})
}

// A process ends without writing what it has charged. The store has it, and another process
// writes it, as soon as it finds that the first is gone, or when asked to reconcile.
func TestAProcessThatIsKilled(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		rdb := onRedis(t)
		killed := bookOn(t, l, byHand(rdb.store()))
		takeFrom(t, killed, "tenant:acme", 7)
		other := bookOn(t, l, byHand(rdb.store()))
		var found []Difference
		note := func(d Difference) error { found = append(found, d); return nil }
		if sum, err := other.Reconcile(t.Context(), false, note); err != nil || sum != (Reconciliation{Accounts: 1, Left: 1}) || found[0].Cause != CauseUnknownLimit {
			t.Errorf("in a process without the limit: %+v, %v, %+v", sum, err, found)
		}
		limiterOn(t, other.Store(), monthly(100))
		for _, repair := range []bool{false, true, true} {
			found = nil
			sum := must.Get(other.Reconcile(t.Context(), repair, note))(t)
			if len(found) > 0 && (found[0].Cause != CauseNotFlushed || found[0].InStore != 7 || found[0].Repaired != repair) {
				t.Errorf("%+v", found)
			}
			t.Logf("repair %v: %+v", repair, sum)
		}
		if len(found) > 0 {
			t.Errorf("after the repair: %+v", found)
		}
		wantUnits(t, other, 7)
	})
}
