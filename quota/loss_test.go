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
)

// hookedLedger calls functions around those of a ledger.
type hookedLedger struct {
	ledger
	onFlush func(positions []position)
	onBegin func(openings []opening, answers []begun, before bool)
}

func (h *hookedLedger) flush(ctx context.Context, positions []position) error {
	if h.onFlush != nil {
		h.onFlush(positions)
	}
	return h.ledger.flush(ctx, positions)
}

func (h *hookedLedger) begin(ctx context.Context, openings []opening, positions []position, answers []begun) error {
	if h.onBegin != nil {
		h.onBegin(openings, answers, true)
	}
	if err := h.ledger.begin(ctx, openings, positions, answers); err != nil {
		return err
	}
	if h.onBegin != nil {
		h.onBegin(openings, answers, false)
	}
	return nil
}

// hookedStore calls functions around Restore.
type hookedStore struct {
	store.Store
	restorer store.Restorer
	before   func(from []store.Restoration)
	after    func(from []store.Restoration) error
}

func (h *hookedStore) Restore(ctx context.Context, checks []store.Check, from []store.Restoration, results []store.Result) error {
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
	s := &changingStore{Store: memstore.New(memstore.Config{}), change: func(int) {}}
	b := bookOn(t, newMemoryLedger(defaultLevels), Config{Store: s, FlushEvery: time.Minute})
	limiterOn(t, b.Store(), monthly(100))
	hourly, err := core.PerHour(3).FixedWindow().Named("hourly").Rule()
	if err != nil {
		t.Fatal(err)
	}
	checks := append(planCheck(t, 1), store.Check{Key: []byte("tenant:acme"), Rule: &hourly, Cost: 3})
	results := make([]store.Result, 2)
	if err := s.Take(t.Context(), checks[1:], results[1:]); err != nil || !results[1].Charged {
		t.Fatalf("%+v, %v", results[1], err)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	s.takes, s.change = 0, func(takes int) {
		switch takes {
		case 1:
			if err := s.Reset(t.Context(), checks[1:]); err != nil {
				t.Error(err)
			}
		case 2:
			hangUp()
		}
	}
	if err := b.Store().Take(ctx, checks, results); err == nil {
		t.Error("no error for a request that has ended")
	}
	if err := s.Peek(t.Context(), checks[1:], results[1:]); err != nil || results[1].Remaining != 3 {
		t.Errorf("%d units are left of 3, %v", results[1].Remaining, err)
	}
}

// Totals that no store counts to, and totals below 0, can be restored.
func TestTotalsOutOfRange(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustBegin(t, l, a, 0)
		mustFlush(t, l, at(a, 1, 2, 1<<52, 60))
		if got := mustBegin(t, l, a, 0); got.total != maxBase {
			t.Errorf("after 2^52 units: %+v", got)
		}
		mustFlush(t, l, at(a, 2, 2, maxBase+5, 60))
		if got := usedOf(t, l, a); got != 1<<52+5 {
			t.Errorf("used %d, want 2^52 + 5", got)
		}
		mustFlush(t, l, at(a, 1, 3, 0, 70))
		mustFlush(t, l, at(a, 2, 3, 0, 70))
		if got := mustBegin(t, l, a, 0); got.total != 0 {
			t.Errorf("after more was given back than used: %+v", got)
		}
	})
}

// A request for an account that the store has forgotten takes what is not written with it. Until that
// is written, Flush has not written everything.
func TestFlushWaitsForWhatRequestsWrite(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	writing, goOn := make(chan struct{}), make(chan struct{})
	l := newMemoryLedger(defaultLevels)
	h := &hookedLedger{ledger: l, onBegin: func(_ []opening, _ []begun, before bool) {
		if before && asked.Add(1) == 2 {
			close(writing)
			<-goOn
		}
	}}
	m := memstore.New(memstore.Config{})
	b := bookOn(t, h, Config{Store: m, FlushEvery: time.Minute, Timeout: time.Minute})
	limiterOn(t, b.Store(), monthly(100))
	checks, results := takeFrom(t, b, "tenant:acme", 5)
	forget(t, m, "tenant:acme", monthly(100))
	var all sync.WaitGroup
	all.Go(func() { _ = b.Store().Take(t.Context(), checks, results) })
	<-writing

	within, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.Flush(within); err == nil {
		t.Error("Flush says that everything is written while 5 units are on their way")
	}
	close(goOn)
	mustFlushBook(t, b)
	all.Wait()
	mustFlushBook(t, b)
	if u := b.total(t, "plan", "tenant:acme"); u != 10 {
		t.Errorf("%d units are written, want 10", u)
	}
}

// The store forgets an account while its use is on the way to the ledger, and then units are given back.
func TestForgottenDuringAFlush(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		flushing, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		h := &hookedLedger{ledger: l, onFlush: func([]position) {
			once.Do(func() { close(flushing); <-goOn })
		}}
		m := memstore.New(memstore.Config{})
		b := bookOn(t, h, Config{Store: m, FlushEvery: time.Minute})
		limiterOn(t, b.Store(), monthly(100))
		checks, results := takeFrom(t, b, "tenant:acme", 9)
		var group sync.WaitGroup
		group.Go(func() { mustFlushBook(t, b) })
		<-flushing
		forget(t, m, "tenant:acme", monthly(100))
		if err := b.Store().Refund(t.Context(), checks, results); err != nil {
			t.Error(err)
		}
		close(goOn)
		group.Wait()
		mustFlushBook(t, b)
		if got := b.total(t, "plan", "tenant:acme"); got != 0 {
			t.Errorf("the ledger has %d units, and all were given back", got)
		}
	})
}

// An account goes on in another generation, since an earlier one was written late. Meanwhile another
// process charges the present one, and then the store's answer is lost.
func TestALateGenerationAndALostAnswer(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			t.Parallel()
			m := memstore.New(memstore.Config{})
			l := newMemoryLedger(defaultLevels)
			h := &hookedStore{Store: m, restorer: m}
			a, b := bookOn(t, l, Config{Store: h, FlushEvery: time.Minute}), bookOn(t, l, Config{Store: m, FlushEvery: time.Minute})
			limiterOn(t, a.Store(), monthly(1000))
			takeFrom(t, a, "tenant:acme", 7)
			forget(t, m, "tenant:acme", monthly(1000))
			takeFrom(t, b, "tenant:acme", 1)
			takeFrom(t, a, "tenant:acme", 1)
			granted, tries := int64(9), 0
			h.before = func(from []store.Restoration) {
				if from[0].Expect > 0 && tries < 2 {
					tries++
					takeFrom(t, b, "tenant:acme", 20)
					granted += 20
				}
			}
			h.after = func([]store.Restoration) error {
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
			if got := a.total(t, "plan", "tenant:acme"); got != granted {
				t.Errorf("the ledger has %d units, and %d were granted", got, granted)
			}
			takeFrom(t, b, "tenant:acme", 2)
			mustFlushBook(t, b)
			if got := a.total(t, "plan", "tenant:acme"); got != granted+2 {
				t.Errorf("then the ledger has %d units, and %d were granted", got, granted+2)
			}
		})
	}
}

// A store goes on with a generation that was closed: it was set back twice, or was not told when the
// generation was closed.
func TestAClosedGenerationComesBack(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		_, rdb := onRedis(t)
		b := bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: time.Minute})
		limiterOn(t, b.Store(), monthly(1000))
		takeFrom(t, b, "tenant:acme", 50)
		older := dump(t, rdb)
		takeFrom(t, b, "tenant:acme", 30)
		takeFrom(t, b, "tenant:acme", 1)
		mustFlushBook(t, b)
		for n := range int64(3) {
			restore(t, rdb, older)
			takeFrom(t, b, "tenant:acme", 10)
			mustFlushBook(t, b)
			if got := b.total(t, "plan", "tenant:acme"); got != 81+2*n {
				t.Fatalf("the ledger has %d units, want the %d that it knew", got, 81+2*n)
			}
			takeFrom(t, b, "tenant:acme", 2)
			mustFlushBook(t, b)
			if got := b.total(t, "plan", "tenant:acme"); got != 83+2*n {
				t.Fatalf("set back %d times: the ledger has %d units, want %d", n+1, got, 83+2*n)
			}
		}
		restore(t, rdb, older)
		var found []Difference
		if sum, err := b.Reconcile(t.Context(), true, func(d Difference) error { found = append(found, d); return nil }); err != nil ||
			sum.Repaired != 1 || found[0].Cause != CauseForked {
			t.Errorf("%+v, %v: %+v", sum, err, found)
		}
		takeFrom(t, b, "tenant:acme", 2)
		mustFlushBook(t, b)
		if got := b.total(t, "plan", "tenant:acme"); got != 89 {
			t.Errorf("reconciled: the ledger has %d units, want 89", got)
		}
	})
}

// A store that was set back is charged as often as before, so that only what is used differs.
func TestSetBackToTheSamePosition(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		_, rdb := onRedis(t)
		a, b := bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: time.Minute}), bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: time.Minute})
		limiterOn(t, a.Store(), monthly(1000))
		limiterOn(t, b.Store(), monthly(1000))
		for i, by := range []*Book{a, b} {
			takeFrom(t, a, "tenant:acme", 20)
			older := dump(t, rdb)
			takeFrom(t, a, "tenant:acme", 3)
			mustFlushBook(t, a)
			restore(t, rdb, older)
			takeFrom(t, by, "tenant:acme", 6)
			mustFlushBook(t, by)
			if checks, _ := takeFrom(t, by, "tenant:acme", 1); store.Generation(checks[0].Account.Position) != int64(i)+2 {
				t.Errorf("%d: it was not found out: generation %d", i, store.Generation(checks[0].Account.Position))
			}
			mustFlushBook(t, by)
			if got, want := a.total(t, "plan", "tenant:acme"), int64(24*(i+1)); got != want {
				t.Errorf("%d: the ledger has %d units, want %d", i, got, want)
			}
		}
	})
}

// A store is set back again before the ledger was told what it had charged in the meantime, which counts once at most.
func TestSetBackTwice(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		_, rdb := onRedis(t)
		b := bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: time.Minute})
		limiterOn(t, b.Store(), monthly(1000))
		other := bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: time.Minute})
		limiterOn(t, other.Store(), monthly(1000))
		takeFrom(t, b, "tenant:acme", 5)
		older := dump(t, rdb)
		takeFrom(t, b, "tenant:acme", 1)
		takeFrom(t, b, "tenant:acme", 1)
		mustFlushBook(t, b)
		restore(t, rdb, older)
		takeFrom(t, b, "tenant:acme", 20)
		forked := dump(t, rdb)
		mustFlushBook(t, b)
		restore(t, rdb, forked)
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
	h := &hookedLedger{ledger: newMemoryLedger(defaultLevels)}
	_, rdb := onRedis(t)
	l := &failingLedger{ledger: h, broken: &broken}
	b := bookOn(t, l, Config{Store: storeOn(rdb), FlushEvery: time.Minute})
	h.onBegin = func(_ []opening, _ []begun, before bool) {
		if !before || !slow.Load() || asked.Add(1) > maxOpeners {
			return
		}
		// All accounts are asked for before the ledger answers for the first time.
		for until := time.Now().Add(time.Minute); !all.Load(); time.Sleep(time.Millisecond) {
			b.opener.mu.Lock()
			pending := len(b.opener.pending)
			b.opener.mu.Unlock()
			if pending == accounts {
				all.Store(true) // once one has gone on, the others find less
			} else if time.Now().After(until) && !all.Load() {
				t.Errorf("%d of %d accounts are asked for, and the others wait for the answer", pending, accounts)
				return
			}
		}
	}
	limiterOn(t, b.Store(), monthly(1000))
	take := func() {
		var group sync.WaitGroup
		for n := range 30 {
			group.Go(func() {
				for i := n; i < accounts; i += 30 {
					takeFrom(t, b, fmt.Sprintf("tenant:%d", i), 1)
				}
			})
		}
		group.Wait()
	}
	take()
	older := dump(t, rdb)
	take()
	take()
	mustFlushBook(t, b)
	restore(t, rdb, older)
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
	for u, err := range b.Usage(t.Context(), Query{Limit: "plan"}) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Used != 4 { // 3 before, and 1 after it was found out
			t.Fatalf("%s: the ledger has %d units, want 4", u.Tenant, u.Used)
		}
	}
}

// failingLedger begins no generations for a while.
type failingLedger struct {
	ledger
	broken *atomic.Bool
}

func (f *failingLedger) begin(ctx context.Context, openings []opening, positions []position, answers []begun) error {
	if f.broken.Load() {
		return errBroken
	}
	return f.ledger.begin(ctx, openings, positions, answers)
}

// The days of an account add up to its use, with closed generations too.
func TestDaysOfClosedGenerations(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustBegin(t, l, a, 0)
		mustFlush(t, l, at(a, 1, 10, 40, 60))
		mustBegin(t, l, a, 1)
		mustFlush(t, l, at(a, 1, 20, 60, 70))
		mustFlush(t, l, at(a, 1, 30, 90, 3*24*3600))
		mustFlush(t, l, at(a, 2, 5, 45, 3*24*3600))
		days, err := l.days(t.Context(), Query{Limit: "plan", From: timeOf(a.start), To: timeOf(a.end)})
		if err != nil {
			t.Fatal(err)
		}
		if len(days) != 2 || days[0].used != 40 || days[1].used != 5 || usedOf(t, l, a) != 45 {
			t.Errorf("days %+v, used %d; want 40 and 5, 45 together", days, usedOf(t, l, a))
		}
	})
}

// Accounts that are charged all the time don't keep others from being written.
func TestNoAccountWaitsForOthers(t *testing.T) {
	t.Parallel()
	h := &hookedLedger{ledger: newMemoryLedger(defaultLevels)}
	b := bookOn(t, h, Config{Store: memstore.New(memstore.Config{}), FlushEvery: time.Minute})
	limiterOn(t, b.Store(), monthly(1000))
	const accounts = 3 * flushBatch
	keys := make(map[string]string)
	var group sync.WaitGroup
	for i := range accounts {
		key := fmt.Sprintf("tenant:%d", i)
		keys[textOf([]byte(key))] = key
	}
	next := make(chan string)
	for range 100 { // accounts are opened together
		group.Go(func() {
			for key := range next {
				takeFrom(t, b, key, 1)
			}
		})
	}
	for _, key := range keys {
		next <- key
	}
	close(next)
	group.Wait()
	h.onFlush = func(positions []position) {
		for i := range positions {
			takeFrom(t, b, keys[positions[i].key], 1)
		}
	}
	mustFlushBook(t, b)
	missing := accounts
	for u, err := range b.Usage(t.Context(), Query{Limit: "plan"}) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Used > 0 {
			missing--
		}
	}
	if missing > 0 {
		t.Errorf("after a flush nothing is written of %d of %d accounts", missing, accounts)
	}
	h.onFlush = nil
}

// An account that can't be restored, since it has used up its generations, is no harm to others that
// are asked for at the same time.
func TestOneBadAccountIsNoHarmToOthers(t *testing.T) {
	t.Parallel()
	waiting, goOn := make(chan struct{}, 100), make(chan struct{})
	h := &hookedLedger{ledger: newMemoryLedger(defaultLevels), onBegin: func(openings []opening, answers []begun, before bool) {
		if before {
			waiting <- struct{}{}
			<-goOn
			return
		}
		for i := range openings {
			if openings[i].key == "tenant:bad" {
				answers[i].generation = store.MaxGeneration + 1
			}
		}
	}}
	b := bookOn(t, h, Config{Store: memstore.New(memstore.Config{}), FlushEvery: time.Minute})
	limiterOn(t, b.Store(), monthly(1000))
	var group sync.WaitGroup
	for i := range maxOpeners {
		group.Go(func() { takeFrom(t, b, fmt.Sprintf("tenant:%d", i), 1) })
		<-waiting
	}
	group.Go(func() {
		checks, results := planCheck(t, 1), make([]store.Result, 1)
		checks[0].Key = []byte("tenant:bad")
		if err := b.Store().Take(t.Context(), checks, results); err == nil {
			t.Error("an account without a generation was granted")
		}
	})
	group.Go(func() { takeFrom(t, b, "tenant:good", 1) })
	for queued := 0; queued < 2; time.Sleep(time.Millisecond) {
		b.opener.mu.Lock()
		queued = len(b.opener.queue)
		b.opener.mu.Unlock()
	}
	close(goOn)
	group.Wait()
}
