package billing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota"
)

// repeats is what a process has seen that repeated one operation.
type repeats struct{ Charged, Repeated, Credited, Again int }

// repeat charges one operation again and again, and gives one credit, when all processes are there.
func (w *worker) repeat(ctx context.Context, rdb *redis.Client) error {
	rule, err := limits(w.Quota, w.DayEnds)[0].OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Repeats(1000).Rule()
	if err != nil {
		return err
	}
	if err := rdb.Incr(ctx, "ready").Err(); err != nil {
		return err
	}
	for n := 0; n < w.Processes; time.Sleep(time.Millisecond) {
		if n, err = rdb.Get(ctx, "ready").Int(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience) // without which Redis has 3 seconds
	defer cancel()
	var mu sync.Mutex
	var seen repeats
	var errs error
	var all sync.WaitGroup
	for range w.Goroutines {
		all.Go(func() {
			for range w.Repeats / w.Goroutines {
				checks := []store.Check{{Key: []byte(tenant(1)), Rule: &rule, Cost: 5, Once: []byte("order-1")}}
				results := make([]store.Result, 1)
				err := w.store.Take(ctx, checks, results)
				for failed := (*store.Error)(nil); errors.As(err, &failed) && failed.Class == quota.ClassLedger && ctx.Err() == nil; err = w.store.Take(ctx, checks, results) {
					time.Sleep(10 * time.Millisecond) // the ledger is slow on a busy machine, and nothing was charged
				}
				applied, err2 := w.book.Credit(ctx, quota.Credit{Operation: "payment-1", Limit: planName, Tenant: tenant(1), Units: 100})
				_, err3 := w.book.Credit(ctx, quota.Credit{Operation: "payment-1", Limit: planName, Tenant: tenant(1), Units: 101})
				mu.Lock()
				errs = errors.Join(errs, err, err2)
				if !errors.Is(err3, quota.ErrReused) {
					errs = errors.Join(errs, fmt.Errorf("a payment of another amount: %w", err3))
				}
				if results[0].Charged && !results[0].Repeated {
					seen.Charged++
				}
				if results[0].Repeated {
					seen.Repeated++
				}
				if applied {
					seen.Credited++
				} else {
					seen.Again++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	w.parent.Send(seen)
	return errors.Join(errs, w.book.Close(ctx))
}

// Eight processes repeat one operation, and one payment, again and again. Both are done once.
func TestOneOperationFromManyProcesses(t *testing.T) {
	t.Parallel()
	processes, each := 8, long.Rounds(25, 125)
	s := newScenario(t, 1, order{Goroutines: 5, Tenants: 2, Quota: 1000, FlushEvery: 20 * time.Millisecond, Repeats: each, Processes: processes})
	for range processes {
		s.start()
	}
	var sum repeats
	for _, p := range s.processes {
		one := child.Receive[repeats](t, p.Process)
		p.Wait(t)
		sum.Charged, sum.Repeated = sum.Charged+one.Charged, sum.Repeated+one.Repeated
		sum.Credited, sum.Again = sum.Credited+one.Credited, sum.Again+one.Again
	}
	if want := (repeats{1, processes*each - 1, 1, processes*each - 1}); sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}
	book := s.open(t)
	a, used, err := book.Allowance(t.Context(), planName, tenant(1), time.Now())
	if err != nil || used.Used != 5 || a.Units() != 1000+100 {
		t.Errorf("allowance %+v, used %d, %v; want 1,100 units, 5 of them used", a, used.Used, err)
	}
	figure(t, "repeats of a charge and of a payment, done once each", sum.Repeated+sum.Again)
}

// open returns a book on the scenario's servers that knows the limits.
func (s *scenario) open(t *testing.T) *quota.Book {
	t.Helper()
	book := must.Get(quota.Open(t.Context(), connect(t, s.order.PostgreSQL), quota.Config{Store: redisstore.New(s.rdb), FlushEvery: time.Minute, Timeout: patience}))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = book.Close(ctx)
	})
	must.Do(rulesOf(book.Store(), limits(s.order.Quota, s.order.DayEnds)...))(t)
	return book
}
