package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// hookedLedger calls functions around those of a ledger.
type hookedLedger struct {
	ledger.Ledger
	onFlush     func(positions []ledger.Position)
	beforeBegin func() error // an error is the ledger's answer
	afterBegin  func(openings []ledger.Opening, answers []ledger.Begun)
}

func (h *hookedLedger) Flush(ctx context.Context, positions []ledger.Position) error {
	if h.onFlush != nil {
		h.onFlush(positions)
	}
	return h.Ledger.Flush(ctx, positions)
}

func (h *hookedLedger) Begin(ctx context.Context, openings []ledger.Opening, positions []ledger.Position, answers []ledger.Begun) error {
	if h.beforeBegin != nil {
		if err := h.beforeBegin(); err != nil {
			return err
		}
	}
	if err := h.Ledger.Begin(ctx, openings, positions, answers); err != nil {
		return err
	}
	if h.afterBegin != nil {
		h.afterBegin(openings, answers)
	}
	return nil
}

// hookedStore calls functions around Restore.
type hookedStore struct {
	store.Store
	restorer counting.Restorer
	before   func(from []counting.Restoration)
	after    func(from []counting.Restoration) error
}

func (h *hookedStore) Restore(ctx context.Context, checks []store.Check, from []counting.Restoration, results []store.Result) error {
	if h.before != nil {
		h.before(from)
	}
	if err := h.restorer.Restore(ctx, checks, from, results); err != nil {
		return err
	}
	if h.after != nil {
		return h.after(from)
	}
	return nil
}

// takeFrom charges a key, which must be granted.
func takeFrom(t *testing.T, b *Book, key string, cost int64) ([]store.Check, []store.Result) {
	t.Helper()
	checks, results := planCheck(t, cost), make([]store.Result, 1)
	checks[0].Key, checks[0].Account = []byte(key), new(store.Account)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // or Redis has 3 seconds, and may stand still for as long
	defer cancel()
	if err := b.Store().Take(ctx, checks, results); err != nil || !results[0].Charged {
		t.Errorf("%s: %+v, %v", key, results[0], err)
	}
	return checks, results
}

// takeOfEach charges each of n tenants a unit, many at a time, so that their accounts are opened together.
func takeOfEach(t *testing.T, b *Book, n int) {
	t.Helper()
	const callers = 50
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := caller; i < n; i += callers {
				takeFrom(t, b, fmt.Sprintf("tenant:%d", i), 1)
			}
		})
	}
	group.Wait()
}

// changingStore has room for what it has denied before, and a client hangs up as soon as it is charged.
type changingStore struct {
	*memstore.Store
	takes  int
	change func(takes int)
}

func (c *changingStore) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	err := c.Store.Take(ctx, checks, results)
	c.takes++
	c.change(c.takes)
	return err
}

func (c *changingStore) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	if err := ctx.Err(); err != nil { // as a store over a network
		return err
	}
	return c.Store.Refund(ctx, checks, results)
}

// A request is asked for without the account that the store does not know, because another limit denies it,
// which then has room. What it was charged is given back, though the client has gone.
func TestAClientThatHangsUpIsNotCharged(t *testing.T) {
	t.Parallel()
	s := &changingStore{Store: fresh(), change: func(int) {}}
	b := bookOn(t, memledger.New(defaultLevels), byHand(s))
	limiterOn(t, b.Store(), monthly(100))
	hourly := ruleOf(t, core.PerHour(3).FixedWindow().Named("hourly"))
	checks := append(planCheck(t, 1), store.Check{Key: []byte("tenant:acme"), Rule: hourly, Cost: 3})
	results := make([]store.Result, 2)
	if err := s.Take(t.Context(), checks[1:], results[1:]); err != nil || !results[1].Charged {
		t.Fatalf("%+v, %v", results[1], err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	s.takes, s.change = 0, func(takes int) {
		switch takes {
		case 1:
			check.OK(t, s.Reset(t.Context(), checks[1:]))
		case 2:
			hangUp()
		}
	}
	check.Fails(t, "a request that has ended", b.Store().Take(ctx, checks, results), "")
	if err := s.Peek(t.Context(), checks[1:], results[1:]); err != nil || results[1].Remaining != 3 {
		t.Errorf("%d units are left of 3, %v", results[1].Remaining, err)
	}
}

// Totals that no store counts to, and totals below 0, can be restored.
func TestTotalsOutOfRange(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustFlush(t, l, at(a, 1, 2, 1<<52, 60))
		wantBegun(t, l, a, 0, ledger.Begun{Generation: 2, Total: ledger.MaxBase})
		mustFlush(t, l, at(a, 2, 2, ledger.MaxBase+5, 60))
		wantUsed(t, l, a, 1<<52+5)
		mustFlush(t, l, at(a, 1, 3, 0, 70))
		mustFlush(t, l, at(a, 2, 3, 0, 70))
		wantBegun(t, l, a, 0, ledger.Begun{Generation: 3, Total: 0}) // more was given back than used
	})
}

// A request for an account that the store has forgotten takes what is not written with it. Until that
// is written, Flush has not written everything.
func TestFlushWaitsForWhatRequestsWrite(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	writing, goOn := make(chan struct{}), make(chan struct{})
	l := memledger.New(defaultLevels)
	h := &hookedLedger{Ledger: l, beforeBegin: func() error {
		if asked.Add(1) == 2 {
			close(writing)
			<-goOn
		}
		return nil
	}}
	m := fresh()
	b := bookOn(t, h, Config{Store: m, FlushEvery: time.Minute, Timeout: time.Minute})
	limiterOn(t, b.Store(), monthly(100))
	checks, results := takeFrom(t, b, "tenant:acme", 5)
	forget(t, m, "tenant:acme", monthly(100))
	var all sync.WaitGroup
	all.Go(func() { _ = b.Store().Take(t.Context(), checks, results) })
	<-writing

	within, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check.Fails(t, "Flush says that everything is written while 5 units are on their way", b.Flush(within), "")
	close(goOn)
	mustFlushBook(t, b)
	all.Wait()
	wantWritten(t, b, 10)
}

// The store forgets an account while its use is on the way to the ledger, and then units are given back.
func TestForgottenDuringAFlush(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		flushing, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		h := &hookedLedger{Ledger: l, onFlush: func([]ledger.Position) {
			once.Do(func() { close(flushing); <-goOn })
		}}
		b, m := byHandOn(t, h, 100)
		checks, results := takeFrom(t, b, "tenant:acme", 9)
		var group sync.WaitGroup
		group.Go(func() { mustFlushBook(t, b) })
		<-flushing
		forget(t, m, "tenant:acme", monthly(100))
		check.OK(t, b.Store().Refund(t.Context(), checks, results))
		close(goOn)
		group.Wait()
		wantWritten(t, b, 0)
	})
}

// An account goes on in another generation, since an earlier one was written late. Meanwhile another
// process charges the present one, and then the store's answer is lost.
func TestALateGenerationAndALostAnswer(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			t.Parallel()
			m := fresh()
			l := memledger.New(defaultLevels)
			h := &hookedStore{Store: m, restorer: m}
			a, b := bookOn(t, l, byHand(h)), bookOn(t, l, byHand(m))
			limiterOn(t, a.Store(), monthly(1000))
			takeFrom(t, a, "tenant:acme", 7)
			forget(t, m, "tenant:acme", monthly(1000))
			takeFrom(t, b, "tenant:acme", 1)
			takeFrom(t, a, "tenant:acme", 1)
			granted, tries := int64(9), 0
			h.before = func(from []counting.Restoration) {
				if from[0].Expect > 0 && tries < 2 {
					tries++
					takeFrom(t, b, "tenant:acme", 20)
					granted += 20
				}
			}
			h.after = func([]counting.Restoration) error {
				if lost {
					return errors.New("the answer is lost")
				}
				return nil
			}
			mustFlushBook(t, a)
			if tries == 0 {
				t.Fatal("the account did not go on in another generation")
			}
			h.after = nil
			for _, book := range []*Book{a, b} {
				mustFlushBook(t, book)
			}
			wantUnits(t, a, granted)
			takeFrom(t, b, "tenant:acme", 2)
			mustFlushBook(t, b)
			wantUnits(t, a, granted+2)
		})
	}
}

// A store goes on with a generation that was closed: it was set back twice, or was not told when the
// generation was closed.
func TestAClosedGenerationComesBack(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		rdb := onRedis(t)
		b := bookOn(t, l, byHand(rdb.store()))
		limiterOn(t, b.Store(), monthly(1000))
		takeFrom(t, b, "tenant:acme", 50)
		older := rdb.dump(t)
		takeFrom(t, b, "tenant:acme", 30)
		takeFrom(t, b, "tenant:acme", 1)
		mustFlushBook(t, b)
		for n := range int64(3) {
			rdb.restore(t, older)
			takeFrom(t, b, "tenant:acme", 10)
			wantWritten(t, b, 81+2*n)
			takeFrom(t, b, "tenant:acme", 2)
			wantWritten(t, b, 83+2*n)
		}
		rdb.restore(t, older)
		var found []Difference
		if sum, err := b.Reconcile(t.Context(), true, func(d Difference) error { found = append(found, d); return nil }); err != nil ||
			sum.Repaired != 1 || found[0].Cause != CauseForked {
			t.Errorf("%+v, %v: %+v", sum, err, found)
		}
		takeFrom(t, b, "tenant:acme", 2)
		wantWritten(t, b, 89)
	})
}

// A store that was set back is charged as often as before, so that only what is used differs.
func TestSetBackToTheSamePosition(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		rdb := onRedis(t)
		a, b := bookOn(t, l, byHand(rdb.store())), bookOn(t, l, byHand(rdb.store()))
		limiterOn(t, a.Store(), monthly(1000))
		limiterOn(t, b.Store(), monthly(1000))
		for i, by := range []*Book{a, b} {
			takeFrom(t, a, "tenant:acme", 20)
			older := rdb.dump(t)
			takeFrom(t, a, "tenant:acme", 3)
			mustFlushBook(t, a)
			rdb.restore(t, older)
			takeFrom(t, by, "tenant:acme", 6)
			mustFlushBook(t, by)
			if checks, _ := takeFrom(t, by, "tenant:acme", 1); counting.Generation(checks[0].Account.Position) != int64(i)+3 {
				t.Errorf("%d: it was not found out: generation %d", i, counting.Generation(checks[0].Account.Position))
			}
			mustFlushBook(t, by)
			check.Equal(t, fmt.Sprintf("%d: units that the ledger has", i), a.total(t, "plan", "tenant:acme"), int64(27*(i+1))) // the larger branch, and 1
		}
	})
}

// A store is set back again before the ledger was told what it had charged in the meantime, which counts once at most.
func TestSetBackTwice(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		rdb := onRedis(t)
		b := bookOn(t, l, byHand(rdb.store()))
		limiterOn(t, b.Store(), monthly(1000))
		other := bookOn(t, l, byHand(rdb.store()))
		limiterOn(t, other.Store(), monthly(1000))
		takeFrom(t, b, "tenant:acme", 5)
		older := rdb.dump(t)
		takeFrom(t, b, "tenant:acme", 1)
		takeFrom(t, b, "tenant:acme", 1)
		mustFlushBook(t, b)
		rdb.restore(t, older)
		takeFrom(t, b, "tenant:acme", 20)
		forked := rdb.dump(t)
		mustFlushBook(t, b)
		rdb.restore(t, forked)
		takeFrom(t, other, "tenant:acme", 1)
		for range 2 {
			mustFlushBook(t, other)
			mustFlushBook(t, b)
		}
		got := b.total(t, "plan", "tenant:acme")
		if got < 7 || got > 7+20+1 {
			t.Errorf("the ledger has %d units, and 7 and then 21 were granted", got)
		}
		days, err := b.Days(t.Context(), Query{Limit: "plan"})
		if err != nil || len(days) != 1 || days[0].Used != got {
			t.Errorf("by day: %+v, %v", days, err)
		}
	})
}

// After a failover many accounts are found at once, however long the ledger takes for each question. What
// the ledger does not answer is asked again, although nothing is charged any more.
func TestManyAccountsAreSetBack(t *testing.T) {
	t.Parallel()
	const accounts = 1500
	var broken, slow, all atomic.Bool // all: all accounts were asked for at a time
	var asked atomic.Int64            // while it is slow
	h := &hookedLedger{Ledger: memledger.New(defaultLevels)}
	rdb := onRedis(t)
	b := bookOn(t, h, byHand(rdb.store()))
	h.beforeBegin = func() error {
		if broken.Load() {
			return errBroken
		}
		if !slow.Load() || asked.Add(1) > maxOpeners {
			return nil
		}
		wait.Until(t, "all accounts are asked for before the ledger answers for the first time", func() bool {
			b.opener.mu.Lock()
			defer b.opener.mu.Unlock()
			if len(b.opener.pending) == accounts {
				all.Store(true) // once one has gone on, the others find less
			}
			return all.Load()
		})
		return nil
	}
	limiterOn(t, b.Store(), monthly(1000))
	take := func() { takeOfEach(t, b, accounts) }
	take()
	older := rdb.dump(t)
	take()
	take()
	mustFlushBook(t, b)
	rdb.restore(t, older)
	take()
	broken.Store(true)
	mustFlushBook(t, b) // written, but no other generations are begun
	broken.Store(false)
	slow.Store(true)
	b.opener.answered()
	mustFlushBook(t, b)
	slow.Store(false)
	if n := asked.Load(); n > maxOpeners+accounts/openBatch+1 {
		t.Errorf("the ledger was asked %d times for %d accounts", n, accounts)
	}
	take()
	mustFlushBook(t, b)
	for _, u := range usesOf(t, b, Query{Limit: "plan"}) {
		must.Equal(t, u.Tenant+" has used", u.Used, 4) // 3 before, and 1 after it was found out
	}
}

// The days of an account add up to its use, with closed generations too.
func TestDaysOfClosedGenerations(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustFlush(t, l, at(a, 1, 10, 40, 60))
		mustBegin(t, l, a, 1)
		mustFlush(t, l, at(a, 1, 20, 60, 70))
		mustFlush(t, l, at(a, 1, 30, 90, 3*24*3600))
		mustFlush(t, l, at(a, 2, 5, 45, 3*24*3600))
		days := daysOf(t, l, Query{Limit: "plan", From: micros.Time(a.Start), To: micros.Time(a.End)})
		if len(days) != 2 || days[0].Used != 40 || days[1].Used != 5 || usedOf(t, l, a) != 45 {
			t.Errorf("days %+v, used %d; want 40 and 5, 45 together", days, usedOf(t, l, a))
		}
	})
}

// Accounts that are charged all the time don't keep others from being written.
func TestNoAccountWaitsForOthers(t *testing.T) {
	t.Parallel()
	h := &hookedLedger{Ledger: memledger.New(defaultLevels)}
	b := bookOn(t, h, byHand(fresh()))
	limiterOn(t, b.Store(), monthly(1000))
	const accounts = flushBatch + 1000
	takeOfEach(t, b, accounts)
	h.onFlush = func(positions []ledger.Position) {
		for i := range positions {
			takeFrom(t, b, positions[i].Key, 1) // which is its text, too
		}
	}
	mustFlushBook(t, b)
	h.onFlush = nil
	written := 0
	for _, u := range usesOf(t, b, Query{Limit: "plan"}) {
		if u.Used > 0 {
			written++
		}
	}
	check.Equal(t, "accounts that are written after a flush", written, accounts)
}

// An account that can't be restored, since it has used up its generations, is no harm to others that
// are asked for at the same time.
func TestOneBadAccountIsNoHarmToOthers(t *testing.T) {
	t.Parallel()
	waiting, goOn := make(chan struct{}, 100), make(chan struct{})
	h := &hookedLedger{Ledger: memledger.New(defaultLevels)}
	h.beforeBegin = func() error {
		waiting <- struct{}{}
		<-goOn
		return nil
	}
	h.afterBegin = func(openings []ledger.Opening, answers []ledger.Begun) {
		for i := range openings {
			if openings[i].Key == "tenant:bad" {
				answers[i].Generation = counting.MaxGeneration + 1
			}
		}
	}
	b := bookOn(t, h, byHand(fresh()))
	limiterOn(t, b.Store(), monthly(1000))
	var group sync.WaitGroup
	for i := range maxOpeners {
		group.Go(func() { takeFrom(t, b, fmt.Sprintf("tenant:%d", i), 1) })
		<-waiting
	}
	group.Go(func() {
		checks, results := planCheck(t, 1), make([]store.Result, 1)
		checks[0].Key = []byte("tenant:bad")
		check.Fails(t, "an account without a generation was granted", b.Store().Take(t.Context(), checks, results), "")
	})
	group.Go(func() { takeFrom(t, b, "tenant:good", 1) })
	wait.Until(t, "the others are queued", func() bool {
		b.opener.mu.Lock()
		defer b.opener.mu.Unlock()
		return len(b.opener.queue) == 2
	})
	close(goOn)
	group.Wait()
}
