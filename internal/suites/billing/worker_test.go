package billing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota"
)

// order tells a process what to do.
type order struct {
	Network, Addr string // of Redis
	PostgreSQL    string
	Journal       string // path
	BillingDay    int
	DayEnds       int64 // seconds since the epoch at which a day of the second limit ends; 0 for months
	Seed          uint64
	Goroutines    int
	Pause         time.Duration // of each goroutine between charges: load beyond some thousand a second finds nothing more
	Tenants       int
	Quota         int64
	FlushEvery    time.Duration
	Settle        bool // also charge beyond what was granted
	TakeOnly      bool // settle nothing and give nothing back
	Repeats       int  // instead, repeat one operation so often
	Processes     int  // that repeat it
}

// worker is a process that charges accounts until it is told to end.
type worker struct {
	order
	parent  *child.Parent
	book    *quota.Book
	store   store.Store
	rules   []*store.Rule
	journal *journal
}

// charging is what a process does.
var charging = child.NewRole("charging", func(t *testing.T, parent *child.Parent, o order) {
	must.OK(t, (&worker{order: o, parent: parent}).work())
})

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

func (w *worker) work() error {
	billingDay = w.BillingDay
	var err error
	if w.journal, err = openJournal(w.Journal); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		w.parent.Wait()
		stop()
	}()
	config, err := pgxpool.ParseConfig(w.PostgreSQL)
	if err != nil {
		return err
	}
	config.MaxConns = 6
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	timeout, options := 2*time.Second, &redis.Options{Network: w.Network, Addr: w.Addr, PoolSize: 16}
	if w.Repeats > 0 { // nothing fails, on the busiest machine
		timeout, options.ReadTimeout = patience, patience
	}
	rdb := redis.NewClient(options)
	redisStore := redisstore.New(rdb)
	redisStore.OnEvent(func(core.Event) {}) // no log
	for {                                   // PostgreSQL may be away when a process starts
		w.book, err = quota.Open(ctx, pool, quota.Config{Store: redisStore, FlushEvery: w.FlushEvery, Timeout: timeout, Exports: exportsTo(w.journal)})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond) // PostgreSQL may be away, and nothing tells when it is back
	}
	w.store = w.book.Store()
	if w.rules, err = rulesOf(w.store, limits(w.Quota, w.DayEnds)...); err != nil {
		return err
	}
	if w.Repeats > 0 {
		return w.repeat(ctx, rdb)
	}
	var all sync.WaitGroup
	for i := range w.Goroutines {
		all.Go(func() { w.run(ctx, rand.New(rand.NewPCG(w.Seed, uint64(i)))) })
	}
	all.Go(func() { w.flushes(ctx) })
	all.Wait()
	within, cancel := context.WithTimeout(context.Background(), patience/2)
	defer cancel()
	for err = w.book.Flush(within); err != nil && within.Err() == nil; err = w.book.Flush(within) {
		time.Sleep(20 * time.Millisecond) // PostgreSQL may be away, and nothing tells when it is back
	}
	_ = w.book.Close(within) // everything is written
	return err
}

// exportsTo returns an export of which a journal is the receiver.
func exportsTo(j *journal) []quota.Export {
	return []quota.Export{{Name: "engine", Send: j.export, Every: 100 * time.Millisecond, Timeout: time.Second, Batch: 1000, Since: time.Now().AddDate(0, 0, -3)}}
}

// flushes notes up to when everything is written.
func (w *worker) flushes(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		if w.book.Flush(ctx) == nil {
			w.journal.flushed(began)
		}
		time.Sleep(w.FlushEvery)
	}
}

// run charges until ctx is done. Some tenants are charged much more often than others.
func (w *worker) run(ctx context.Context, r *rand.Rand) {
	zipf := rand.NewZipf(r, 1.3, 3, uint64(w.Tenants-1))
	for ctx.Err() == nil {
		time.Sleep(w.Pause)
		n := int(zipf.Uint64())
		if r.IntN(3) == 0 {
			n = r.IntN(w.Tenants)
		}
		used := 1 // limits, as bits
		if r.IntN(4) == 0 {
			used = 3
		}
		checks := w.checks(n, used, 1+r.Int64N(9))
		if len(checks) > 1 && r.IntN(2) == 0 {
			checks[1].Or = true // the first pays, or the second does
		}
		results := make([]store.Result, len(checks))
		id, ok := w.do(n, used, take, 0, checks, results)
		if !ok {
			continue
		}
		used, checks, results = paid(used, checks, results)
		if w.TakeOnly {
			continue
		}
		switch r.IntN(8) {
		case 0:
			if r.IntN(2) == 0 { // as after a slow request
				time.Sleep(time.Duration(r.IntN(int(50 * time.Millisecond))))
			}
			w.do(n, used, refund, id, checks, results)
		case 1:
			if w.Settle {
				w.do(n, used, charge, id, w.checks(n, used, 1+r.Int64N(9)), results)
			}
		}
	}
}

// paid returns what was charged: one of several alternatives, or all.
func paid(used int, checks []store.Check, results []store.Result) (int, []store.Check, []store.Result) {
	if len(checks) < 2 || !checks[1].Or {
		return used, checks, results
	}
	i := slices.IndexFunc(results, func(r store.Result) bool { return r.Charged })
	if i < 0 {
		return 0, nil, nil
	}
	return 1 << i, checks[i : i+1], results[i : i+1] // the limits are the first and the second
}

// checks returns the checks of a tenant for limits, given as bits.
func (w *worker) checks(n, used int, cost int64) (checks []store.Check) {
	key := []byte(tenant(n))
	for i, rule := range w.rules {
		if used&(1<<i) != 0 {
			checks = append(checks, store.Check{Key: key, Rule: rule, Cost: cost, Account: new(store.Account)})
		}
	}
	return checks
}

// do makes an operation, keeps the journal and reports whether it took effect.
func (w *worker) do(n, used int, k kind, of int64, checks []store.Check, results []store.Result) (id int64, ok bool) {
	// A process answers requests also when it is about to end.
	timeout := 2 * time.Second
	switch {
	case w.TakeOnly: // nobody may be left without an answer
		timeout = patience
	case rand.IntN(100) == 0: // a client that hangs up
		timeout = time.Duration(rand.IntN(int(3 * time.Millisecond)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	id = w.journal.start(n, used, k, checks[0].Cost, of)
	var err error
	switch k {
	case take:
		err = w.store.Take(ctx, checks, results)
	case charge:
		err = w.store.Charge(ctx, checks, results)
	case refund:
		err = w.store.Refund(ctx, checks, results)
	}
	var failed *store.Error
	switch now, charged, told := paid(used, checks, results); {
	case err == nil && (k != take || len(told) > 0 && told[0].Charged):
		if now != used {
			w.journal.paid(id, now)
		}
		w.journal.granted(id, charged, told)
		return id, true
	case err == nil:
		w.journal.refused(id)
		time.Sleep(time.Millisecond)
	case k == take && errors.As(err, &failed) && (failed.Class == quota.ClassLedger || failed.Class == store.ClassOpen):
		w.journal.refused(id) // such an error says that nothing was charged
	default:
		w.journal.unknown(id, fmt.Errorf("%w", err))
	}
	if err != nil {
		time.Sleep(5 * time.Millisecond)
	}
	return id, false
}
