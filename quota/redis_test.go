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
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// onRedis returns a Redis server for this test alone, and a client that waits for it on a busy machine.
func onRedis(t *testing.T) (*redistest.Server, *redis.Client) {
	t.Helper()
	s := redistest.Start(t)
	return s, s.ClientWith(t, &redis.Options{
		MaxRetries:  -1,
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute,
	})
}

func storeOn(rdb redis.UniversalClient) store.Store { return redisstore.New(rdb) }

// Redis is emptied again and again under load. What is admitted beyond the quota is at most what
// was charged in one flush interval before each time, and the ledger has every unit that
// was granted and is known to a process.
func TestRedisFlushedUnderLoad(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		const quota, processes, every = 3000, 3, 100 * time.Millisecond
		_, rdb := onRedis(t)
		rule, err := monthly(quota).Rule()
		if err != nil {
			t.Fatal(err)
		}
		var granted, flushes atomic.Int64
		var rate atomic.Int64 // most units that were granted in one interval
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var group sync.WaitGroup
		var books []*Book
		for range processes {
			b := bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: every})
			books = append(books, b)
			for range 4 {
				group.Go(func() {
					checks, results := []store.Check{{Key: []byte("tenant:acme"), Rule: &rule, Cost: 1}}, make([]store.Result, 1)
					for denied := 0; ctx.Err() == nil && denied < 50; {
						if err := b.Store().Take(ctx, checks, results); err != nil {
							continue
						}
						if !results[0].Charged {
							denied++
							time.Sleep(10 * time.Millisecond)
							continue
						}
						granted.Add(1)
						time.Sleep(time.Duration(rand.IntN(int(8 * time.Millisecond))))
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
					if err := rdb.FlushAll(ctx).Err(); err != nil {
						t.Error(err)
					}
					flushes.Add(1)
				}
			}
		})
		group.Wait()
		close(stop)
		chaos.Wait()
		for _, b := range books {
			mustFlushBook(t, b)
		}
		ledgerHas := books[0].total(t, "plan", "tenant:acme")
		bound := flushes.Load() * rate.Load()
		t.Logf("Redis was emptied %d times: %d units of %d granted, %d over; bound %d (%d in the busiest interval of %v)",
			flushes.Load(), granted.Load(), quota, granted.Load()-quota, bound, rate.Load(), every)
		if granted.Load() < quota || granted.Load() > quota+bound {
			t.Errorf("granted %d units of %d, beyond the bound of %d", granted.Load(), quota, bound)
		}
		if ledgerHas != granted.Load() {
			t.Errorf("the ledger has %d units, and %d were granted", ledgerHas, granted.Load())
		}
	})
}

// A replica that had not received everything takes over: an older record is written back.
func TestAnOlderRecordComesBack(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		_, rdb := onRedis(t)
		b := bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: time.Minute})
		take := func(n int64) (a store.Account) {
			t.Helper()
			for range n {
				checks, _ := takeFrom(t, b, "tenant:acme", 1)
				a = *checks[0].Account
			}
			return a
		}
		take(50)
		older := dump(t, rdb)
		take(30)
		mustFlushBook(t, b)
		restore(t, rdb, older)
		take(10)
		mustFlushBook(t, b)
		if b.total(t, "plan", "tenant:acme") != 80 {
			t.Errorf("the ledger has %d units, want the 80 that it knew", b.total(t, "plan", "tenant:acme"))
		}
		a := take(1)
		if a.Used != 81 || store.Generation(a.Position) != 2 {
			t.Errorf("after it was found out: used %d in generation %d, want 81 in 2", a.Used, store.Generation(a.Position))
		}
		take(4)
		mustFlushBook(t, b)
		if got := b.total(t, "plan", "tenant:acme"); got != 85 {
			t.Errorf("the ledger has %d units, want 85", got)
		}
	})
}

// dump returns all keys of a server and their values.
func dump(t *testing.T, rdb *redis.Client) map[string]string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, key := range keys {
		if all[key], err = rdb.Dump(t.Context(), key).Result(); err != nil {
			t.Fatal(err)
		}
	}
	if len(all) == 0 {
		t.Fatal("the server is empty")
	}
	return all
}

func restore(t *testing.T, rdb *redis.Client, all map[string]string) {
	t.Helper()
	for key, value := range all {
		if err := rdb.RestoreReplace(t.Context(), key, time.Hour, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// A process ends without writing what it has charged. The store has it, and another process
// writes it, as soon as it finds that the first is gone, or when asked to reconcile.
func TestAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		_, rdb := onRedis(t)
		rule, err := monthly(100).Rule()
		if err != nil {
			t.Fatal(err)
		}
		killed := bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: time.Minute})
		checks, results := []store.Check{{Key: []byte("tenant:acme"), Rule: &rule, Cost: 7}}, make([]store.Result, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := killed.Store().Take(ctx, checks, results); err != nil {
			t.Fatal(err)
		}
		other := bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: time.Minute})
		var found []Difference
		note := func(d Difference) error { found = append(found, d); return nil }
		if sum, err := other.Reconcile(t.Context(), false, note); err != nil || sum != (Reconciliation{Accounts: 1, Left: 1}) || found[0].Cause != CauseUnknownLimit {
			t.Errorf("in a process without the limit: %+v, %v, %+v", sum, err, found)
		}
		limiterOn(t, other.Store(), monthly(100))
		for _, repair := range []bool{false, true, true} {
			found = nil
			sum, err := other.Reconcile(t.Context(), repair, note)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) > 0 && (found[0].Cause != CauseNotFlushed || found[0].InStore != 7 || found[0].Repaired != repair) {
				t.Errorf("%+v", found)
			}
			t.Logf("repair %v: %+v", repair, sum)
		}
		if len(found) > 0 {
			t.Errorf("after the repair: %+v", found)
		}
		if got := other.total(t, "plan", "tenant:acme"); got != 7 {
			t.Errorf("the ledger has %d units, want 7", got)
		}
	})
}
