package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota/internal/delivery"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// engine is a billing engine that drops increments whose id it knows.
type engine struct {
	mu     sync.Mutex
	known  map[string]Increment
	sums   map[ledger.Account]int64
	byDay  map[ledger.DayUse]int64
	calls  int
	most   int                     // increments of a call
	repeat int                     // increments that it knew
	answer func([]Increment) error // or nil
	t      *testing.T
}

func newEngine(t *testing.T) *engine {
	return &engine{t: t, known: make(map[string]Increment), sums: make(map[ledger.Account]int64), byDay: make(map[ledger.DayUse]int64)}
}

func (e *engine) Send(_ context.Context, batch []Increment) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	e.most = max(e.most, len(batch))
	if e.answer != nil {
		if err := e.answer(batch); err != nil {
			return err
		}
	}
	for _, i := range batch {
		if before, ok := e.known[i.ID]; ok {
			e.repeat++
			if before != i {
				e.t.Errorf("one id, two increments: %+v and %+v", before, i)
			}
			continue
		}
		e.known[i.ID] = i
		id := ledger.Account{Limit: i.Limit, Key: i.Tenant, Start: i.Start.UnixMicro(), End: i.End.UnixMicro()}
		day := ledger.DayUse{Account: id, Date: int32(i.Day.Unix() / (24 * 3600))}
		e.sums[id] += i.Value
		e.byDay[day] += i.Value
		if e.byDay[day] != i.Total || i.Value == 0 || i.At.Before(i.Start) || !i.At.Before(i.End) {
			e.t.Errorf("the day has %d units now: %+v", e.byDay[day], i)
		}
	}
	return nil
}

// equals reports whether the engine has exactly what the ledger has.
func (e *engine) equals(t *testing.T, l ledger.Ledger) bool {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	want := make(map[ledger.Account]int64)
	for _, d := range daysOf(t, l, Query{}.all()) {
		want[d.Account] += d.Used
		if e.byDay[ledger.DayUse{Account: d.Account, Date: d.Date}] != d.Used {
			return false
		}
	}
	equal := true
	must.OK(t, l.Usage(t.Context(), Query{}.all().selection(), func(u ledger.Use) error {
		equal = equal && want[u.Account] == u.Used && e.sums[u.Account] == u.Used
		return nil
	}))
	return equal
}

// beginning is before all periods of these tests.
var beginning = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// billing is an export that the tests themselves do passes of.
func (e *engine) billing() Export {
	return Export{Name: "billing", Send: e.Send, Batch: 10, Timeout: time.Minute}
}

// mustOpenExport makes the export known to a ledger.
func mustOpenExport(t *testing.T, l ledger.Ledger, since time.Time) {
	t.Helper()
	must.OK(t, l.OpenExport(t.Context(), "billing", since))
}

func exporting(e ...Export) Config {
	for i := range e {
		e[i].Every, e[i].Since = 20*time.Millisecond, beginning
	}
	return Config{Store: fresh(), FlushEvery: 10 * time.Millisecond, Exports: e}
}

func TestUsageIsExported(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		all, some := newEngine(t), newEngine(t)
		config := exporting(Export{Name: "all", Send: all.Send, Batch: 7}, Export{Name: "some", Send: some.Send, Limits: []string{"other"}})
		b := bookOn(t, l, config)
		limiter := limiterOn(t, b.Store(), monthly(100))
		for i := range 30 {
			spend(t, limiter, fmt.Sprintf("tenant:%d", i), i)
		}
		mustFlushBook(t, b)
		wait.Until(t, "the engine has everything", func() bool { return all.equals(t, l) })
		spend(t, limiter, "tenant:1", 5)
		mustFlushBook(t, b)
		wait.Until(t, "the engine has what was used since", func() bool { return all.equals(t, l) })
		if all.repeat != 0 || all.most > 7 || len(some.known) != 0 {
			t.Errorf("%d repeats, calls of %d increments, %d of another limit", all.repeat, all.most, len(some.known))
		}
	})
}

// crashing is a ledger of a process that dies around the end of a call of Send: before the
// ledger is told, or before the process learns that it was.
type crashing struct {
	ledger.Ledger
	r *rand.Rand
}

var errCrash = errors.New("crash")

func (c crashing) Sent(ctx context.Context, p *ledger.Pass, all []ledger.Increment) error {
	if c.r.IntN(3) == 0 {
		return errCrash
	}
	if err := c.Ledger.Sent(ctx, p, all); err != nil {
		return err
	}
	if c.r.IntN(3) == 0 {
		return errCrash
	}
	return nil
}

// Accounts are charged, refunded, begin generations that are written late and are closed, while
// the engine and the processes that export fail in all ways. In the end the sums are equal.
func TestSumsAreExactThroughCrashes(t *testing.T) {
	t.Parallel()
	for seed := range long.Rounds[uint64](5, 500) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			eachLedger(t, func(t *testing.T, l ledger.Ledger) { exportThroughCrashes(t, l, seed) })
		})
	}
}

func exportThroughCrashes(t *testing.T, l ledger.Ledger, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	e := newEngine(t)
	steady := false
	e.answer = func([]Increment) error {
		if !steady && r.IntN(4) == 0 {
			return errors.New("down")
		}
		return nil
	}
	mustOpenExport(t, l, beginning)
	var accounts []*charged
	for i := range 6 {
		accounts = append(accounts, &charged{Account: month("plan", fmt.Sprintf("tenant:%d", i%3), time.Month(1+i%2)), base: make(map[int64]int64)})
	}
	for step := range 60 {
		for range r.IntN(6) {
			accounts[r.IntN(len(accounts))].step(t, l, r)
		}
		export := e.billing()
		if export.Batch = 1 + r.IntN(4); r.IntN(5) == 0 {
			export.Send = func(ctx context.Context, batch []Increment) error {
				_ = e.Send(ctx, batch)
				return errors.New("the answer is lost")
			}
		}
		passBy(t, crashing{l, r}, export, fmt.Sprint(step), r.IntN(10) == 0)
	}
	for _, a := range accounts {
		a.flush(t, l)
	}
	steady = true
	passBy(t, l, e.billing(), "last but one", true)
	passBy(t, l, e.billing(), "last", true)
	if !e.equals(t, l) {
		days, _ := l.Days(t.Context(), Query{}.all().selection())
		t.Errorf("the engine has %v, the ledger %v", e.byDay, days)
	}
	if e.repeat == 0 {
		t.Error("nothing was sent twice: the crashes did not happen")
	}
}

// passBy has a process do a pass, which may fail. Another one need not wait for its lease.
func passBy(t *testing.T, l ledger.Ledger, e Export, process string, whole bool) {
	t.Helper()
	p := mustBeginPass(t, l, e.Name, process)
	p.Whole, p.HoldBack = whole, e.HoldBack
	s := delivery.NewSender(&delivery.Desk{Timeout: time.Minute, Ledger: l}, e.receiver())
	_, _ = s.Walk(t.Context(), t.Context(), p)
	must.OK(t, l.EndPass(t.Context(), p, false, 0))
}

func mustBeginPass(t *testing.T, l ledger.Ledger, name, process string) *ledger.Pass {
	t.Helper()
	p := &ledger.Pass{Name: name, Process: process, Lease: time.Minute}
	if ok, err := l.BeginPass(t.Context(), p); err != nil || !ok {
		t.Fatal(ok, err)
	}
	return p
}

// charged is an account with what a store knows of it.
type charged struct {
	ledger.Account
	generation, changes, used int64
	seconds                   int64
	base                      map[int64]int64
	late                      []ledger.Position
}

// step charges or refunds, and maybe flushes, now or later.
func (c *charged) step(t *testing.T, l ledger.Ledger, r *rand.Rand) {
	t.Helper()
	c.seconds += r.Int64N(24 * 3600 / 2)
	c.seconds = min(c.seconds, 27*24*3600)
	if c.generation == 0 || r.IntN(12) == 0 {
		closes := int64(0)
		if c.generation > 0 && r.IntN(2) == 0 {
			closes = c.generation
		}
		b := mustBegin(t, l, c.Account, closes)
		c.generation, c.changes, c.used, c.base[b.Generation] = b.Generation, 0, b.Total, b.Total
	}
	c.changes++
	if c.used > c.base[c.generation] && r.IntN(3) == 0 {
		c.used -= 1 + r.Int64N(c.used-c.base[c.generation])
	} else {
		c.used += r.Int64N(50)
	}
	p := at(c.Account, c.generation, c.changes, c.used, c.seconds)
	if c.late = append(c.late, p); r.IntN(4) > 0 {
		r.Shuffle(len(c.late), func(i, j int) { c.late[i], c.late[j] = c.late[j], c.late[i] })
		mustFlush(t, l, c.late[0])
		c.late = c.late[1:]
	}
}

func (c *charged) flush(t *testing.T, l ledger.Ledger) {
	t.Helper()
	mustFlush(t, l, c.late...)
	c.late = nil
}

// Several processes with the same export, of which some end in the middle.
func TestManyProcessesExport(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		e := newEngine(t)
		var books []*Book
		for range 4 {
			books = append(books, bookOn(t, l, exporting(Export{Name: "billing", Send: e.Send, Batch: 3})))
		}
		for i := range 40 {
			a := month("plan", fmt.Sprintf("tenant:%d", i%7), time.November)
			mustFlush(t, l, at(a, 1, int64(i+1), int64(i*3+1), int64(i*1000)))
			if i == 20 {
				closeBook(t, books[0])
				closeBook(t, books[1])
			}
		}
		wait.Until(t, "the engine has everything", func() bool { return e.equals(t, l) })
		check.Equal(t, "increments sent twice, though nothing has failed", e.repeat, 0)
	})
}

// An increment that the engine refuses for good holds up no other, and is neither dropped nor sent
// all the time.
func TestRefusedIncrements(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		e := newEngine(t)
		refuses := true
		e.answer = func(batch []Increment) error {
			for _, i := range batch {
				if refuses && i.Tenant == "tenant:3" {
					return &DeliveryError{Permanent: true, Err: errors.New("no such customer")}
				}
			}
			return nil
		}
		for i := range 9 {
			mustFlush(t, l, at(month("plan", fmt.Sprintf("tenant:%d", i), time.November), 1, 1, 10, 60))
		}
		bookOn(t, l, exporting(Export{Name: "billing", Send: e.Send}))
		wait.Until(t, "the others", func() bool {
			e.mu.Lock()
			defer e.mu.Unlock()
			return len(e.known) == 8
		})
		e.mu.Lock()
		refuses = false
		e.mu.Unlock()
		wait.Until(t, "all", func() bool { return e.equals(t, l) })
	})
}

func TestRefundsAreHeldBack(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		e := newEngine(t)
		a := month("plan", "tenant:acme", time.November)
		mustOpenExport(t, l, beginning)
		export := e.billing()
		export.HoldBack = true
		for i, tt := range []struct{ used, want int64 }{{10, 10}, {7, 10}, {9, 10}, {12, 12}} {
			mustFlush(t, l, at(a, 1, int64(i+1), tt.used, int64(60+i)))
			passBy(t, l, export, "one", false)
			check.Equal(t, fmt.Sprint("units at the engine of used ", tt.used), e.sums[a], tt.want)
		}
	})
}

// An incremental pass passes over what has not changed, and nothing else.
func TestPassesThatAreNotWhole(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		e := newEngine(t)
		mustOpenExport(t, l, beginning)
		export := e.billing()
		down := export
		down.Send = func(context.Context, []Increment) error { return errors.New("down") }
		a, b := month("plan", "tenant:a", time.November), month("plan", "tenant:b", time.November)
		mustFlush(t, l, at(a, 1, 1, 10, 60), at(b, 1, 1, 10, 60))
		passBy(t, l, down, "one", false)
		mustFlush(t, l, at(a, 1, 2, 15, 70)) // while an increment is on its way
		passBy(t, l, down, "one", false)
		passBy(t, l, export, "one", false)
		passBy(t, l, export, "one", false)
		if !e.equals(t, l) {
			t.Errorf("the engine has %v", e.sums)
		}
		mustBegin(t, l, b, 0)
		mustFlush(t, l, at(b, 2, 3, 20, 80))
		passBy(t, l, export, "one", false)
		if calls := e.calls; !e.equals(t, l) || calls != 3 {
			t.Errorf("the engine has %v after %d calls, want 3", e.sums, calls)
		}
	})
}

// An engine that was away for longer than what is written late is waited for has everything in
// the end; periods that ended before the export was opened are not sent.
func TestPeriodsToExport(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		e := newEngine(t)
		october := time.Date(2026, time.October, 15, 0, 0, 0, 0, time.UTC)
		mustOpenExport(t, l, october)
		september, october2 := month("plan", "tenant:a", time.September), month("plan", "tenant:a", time.October)
		mustFlush(t, l, at(september, 1, 1, 5, 60), at(october2, 1, 1, 7, 60))
		passBy(t, l, e.billing(), "one", false)
		if e.sums[september] != 0 || e.sums[october2] != 7 {
			t.Errorf("%v", e.sums)
		}
		two := mustBeginPass(t, l, "billing", "two")
		if !two.Since.Equal(october) || !two.Whole {
			t.Errorf("after a pass that was not complete: %+v", two)
		}
		if ok, err := l.BeginPass(t.Context(), &ledger.Pass{Name: "billing", Process: "three", Lease: time.Minute}); ok || err != nil {
			t.Error("two processes do a pass", err)
		}
		must.OK(t, l.EndPass(t.Context(), two, true, 0))
		three := mustBeginPass(t, l, "billing", "three")
		if _, ok := l.(*pgledger.Ledger); !three.Since.Equal(two.Began.Add(-ledger.Lateness)) || three.Whole == ok {
			t.Errorf("after a complete pass: %+v", three)
		}
	})
}

// A process that hangs in Send loses its pass to another, and what both send has the same ids.
func TestAnEngineThatHangs(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		hung := make(chan struct{}, 10)
		hangs := func(ctx context.Context, _ []Increment) error {
			hung <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		b := bookOn(t, l, exporting(Export{Name: "billing", Send: hangs, Timeout: time.Minute}))
		spend(t, limiterOn(t, b.Store(), monthly(10)), "tenant:acme", 5)
		<-hung
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		check.Fails(t, "Close does not say that usage was on its way", b.Close(ctx), "")
		e := newEngine(t)
		bookOn(t, l, exporting(Export{Name: "billing", Send: e.Send}))
		wait.Until(t, "another process sends it at once", func() bool { return e.equals(t, l) })
	})
}

// lingering is a ledger whose next statement of one kind is done on the server, and is answered when
// its caller cancels it or the test lets it.
type lingering struct {
	ledger.Ledger
	kind    string
	begun   chan struct{}
	answers chan struct{}
	once    *sync.Once
}

func linger(l ledger.Ledger, kind string) lingering {
	return lingering{Ledger: l, kind: kind, begun: make(chan struct{}), answers: make(chan struct{}), once: new(sync.Once)}
}

func (l lingering) wait(ctx context.Context, kind string) error {
	if kind == l.kind {
		l.once.Do(func() {
			close(l.begun)
			select {
			case <-ctx.Done():
			case <-l.answers:
			}
		})
	}
	return ctx.Err()
}

func (l lingering) BeginPass(ctx context.Context, p *ledger.Pass) (bool, error) {
	ok, err := l.Ledger.BeginPass(context.WithoutCancel(ctx), p)
	if canceled := l.wait(ctx, "begin"); canceled != nil {
		return false, canceled
	}
	return ok, err
}

func (l lingering) NextIncrements(ctx context.Context, p *ledger.Pass, after ledger.Account, n int) (ledger.Page, bool, error) {
	next, ok, err := l.Ledger.NextIncrements(context.WithoutCancel(ctx), p, after, n)
	if canceled := l.wait(ctx, "next"); canceled != nil {
		return ledger.Page{}, false, canceled
	}
	return next, ok, err
}

func (l lingering) EndPass(ctx context.Context, p *ledger.Pass, complete bool, pause time.Duration) error {
	if err := l.wait(ctx, "end"); err != nil {
		return err
	}
	return l.Ledger.EndPass(ctx, p, complete, pause)
}

func (l lingering) Claim(ctx context.Context, channel string, again bool, busy []string, n int, lease time.Duration) ([]ledger.Delivery, error) {
	all, err := l.Ledger.Claim(context.WithoutCancel(ctx), channel, again, busy, n, lease)
	if len(all) > 0 {
		if canceled := l.wait(ctx, "claim"); canceled != nil {
			return nil, canceled
		}
	}
	return all, err
}

// A book that is closed in the middle of a statement keeps no lease that other processes would have
// to wait for, however slow the statement is, and closing is no failure of the export.
func TestACloseInAPassLeavesNoLease(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"begin", "next", "end"} {
		t.Run(kind, func(t *testing.T) {
			eachLedger(t, func(t *testing.T, l ledger.Ledger) {
				slow := linger(l, kind)
				e := newEngine(t)
				config := exporting(Export{Name: "billing", Send: e.Send})
				var seen events
				seen.on(config.Store.(*memstore.Store))
				short := patience{open: time.Minute, load: time.Minute, last: 100 * time.Millisecond}
				b := bookWith(t, slow, config, short)
				mustFlush(t, l, at(month("plan", "tenant:acme", time.November), 1, 1, 10, 60))
				<-slow.begun
				closed := make(chan struct{})
				go func() { defer close(closed); closeBook(t, b) }()
				time.AfterFunc(2*short.last, func() { close(slow.answers) })
				<-closed
				wait.Until(t, "another process does a pass", func() bool {
					ok, err := l.BeginPass(t.Context(), &ledger.Pass{Name: "billing", Process: "another", Lease: time.Minute})
					return ok && err == nil
				})
				if n := seen.count(EventExportFailing); n > 0 {
					t.Errorf("a failing export was reported %d times", n)
				}
			})
		})
	}
}

// Nor does a book whose Close gives up in the middle of a statement.
func TestACloseThatGivesUpLeavesNoLease(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		for _, kind := range []string{"begin", "claim"} {
			slow := linger(l, kind)
			e := newEngine(t)
			var r receiver
			config := exporting(Export{Name: "billing", Send: e.Send})
			if kind == "claim" {
				config = quickly(Channel{Name: "mail", Deliver: r.Deliver, Timeout: maxDeliverTimeout})
			}
			b := bookOn(t, slow, config)
			mustFlush(t, l, reached(month("plan", "tenant:"+kind, time.November), 1, 1))
			<-slow.begun
			gives, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := b.Close(gives); err == nil {
				t.Errorf("%s: Close does not say that something was on its way", kind)
			}
			close(slow.answers)
			if kind == "begin" {
				wait.Until(t, "another process does a pass", func() bool {
					p := &ledger.Pass{Name: "billing", Process: "another", Lease: time.Minute}
					ok, err := l.BeginPass(t.Context(), p)
					return ok && err == nil && l.EndPass(t.Context(), p, false, 0) == nil
				})
				continue
			}
			wait.Until(t, "another process attempts the delivery", func() bool {
				all, err := l.Claim(t.Context(), "mail", false, []string{}, 10, time.Minute)
				return len(all) == 1 && err == nil
			})
			if n := len(r.ids()); n > 0 {
				t.Errorf("%d notices were delivered after Close had returned", n)
			}
		}
	})
}

// Nor does it keep a notice from the others.
func TestACloseInAClaimLeavesNoNotice(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		slow := linger(l, "claim")
		var r receiver
		b := bookOn(t, slow, quickly(Channel{Name: "mail", Deliver: r.Deliver}))
		mustFlush(t, l, reached(month("plan", "tenant:acme", time.November), 1, 1))
		<-slow.begun
		closed := make(chan struct{})
		go func() { defer close(closed); closeBook(t, b) }()
		time.AfterFunc(100*time.Millisecond, func() { close(slow.answers) })
		<-closed
		if all := listOf(t, l, DeliveryQuery{State: Delivered}); len(all) != 1 || len(r.ids()) != 1 {
			t.Errorf("delivered: %+v", listOf(t, l, DeliveryQuery{}))
		}
	})
}
