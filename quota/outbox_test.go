package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// receiver is a channel's receiver that remembers what it gets.
type receiver struct {
	mu  sync.Mutex
	got []Notice // in the order of their arrival

	answer func(Notice) error // or nil
}

func (r *receiver) Deliver(_ context.Context, n Notice) error {
	r.mu.Lock()
	r.got = append(r.got, n)
	answer := r.answer
	r.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(n)
}

// ids returns how often each notice arrived.
func (r *receiver) ids() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make(map[string]int)
	for _, n := range r.got {
		ids[n.ID]++
	}
	return ids
}

// quickly returns a configuration whose notices are delivered and repeated at once.
func quickly(channels ...Channel) Config {
	for i := range channels {
		channels[i].Backoff = 10 * time.Millisecond
	}
	return Config{Store: fresh(), FlushEvery: 10 * time.Millisecond, Notices: channels}
}

// deliveriesOf returns the deliveries of a book.
func deliveriesOf(t *testing.T, b *Book, q DeliveryQuery) (all []Delivery) {
	t.Helper()
	must.OK(t, b.Deliveries(t.Context(), q, func(d Delivery) error { all = append(all, d); return nil }))
	return all
}

// settles waits until a book has n deliveries of a state.
func settles(t *testing.T, b *Book, state DeliveryState, n int) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%d deliveries are %v", n, state), func() bool { return len(deliveriesOf(t, b, DeliveryQuery{State: state})) == n })
}

// reached returns a position with levels, as bits.
func reached(a ledger.Account, changes int64, levels uint64) ledger.Position {
	p := at(a, 1, changes, 100, changes)
	p.Levels = levels
	return p
}

func TestNoticesAreDelivered(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		var r receiver
		b := bookOn(t, l, quickly(Channel{Name: "mail", Deliver: r.Deliver}))
		spend(t, limiterOn(t, b.Store(), monthly(10)), "tenant:acme", 12)
		wait.Until(t, "three notices", func() bool { return len(r.ids()) == 3 })
		var levels []int
		for _, n := range r.got {
			levels = append(levels, n.Level)
			if n.Limit != "plan" || n.Tenant != "tenant:acme" || n.Included != 10 || n.Hard != 10 || n.Used < 8 ||
				n.At.Before(n.Start) || !n.At.Before(n.End) || !strings.HasPrefix(n.ID, "notice_") || strings.Contains(n.ID, ".") {
				t.Errorf("%+v", n)
			}
		}
		slices.Sort(levels)
		check.Equal(t, "levels", fmt.Sprint(levels), "[80 90 100]")
		settles(t, b, Delivered, 3)
		for _, d := range deliveriesOf(t, b, DeliveryQuery{Channel: "mail", Limit: "plan", Tenant: "tenant:acme"}) {
			if d.Attempts != 1 || d.Delivered.IsZero() || d.Err != "" || r.ids()[d.Notice.ID] != 1 {
				t.Errorf("%+v", d)
			}
		}
		check.Equal(t, "deliveries of another tenant", len(deliveriesOf(t, b, DeliveryQuery{Tenant: "tenant:other"})), 0)
	})
}

// Each of several processes flushes the same accounts at their levels, and serves the channel.
func TestNoticesOnceOverManyProcesses(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		const processes, tenants = 4, 50
		var r receiver
		var group sync.WaitGroup
		for range processes {
			b := bookOn(t, l, quickly(Channel{Name: "mail", Deliver: r.Deliver}))
			group.Go(func() {
				for round := range int64(5) {
					var all []ledger.Position
					for i := range tenants {
						all = append(all, reached(month("plan", fmt.Sprintf("tenant:%02d", i), time.November), round+1, 0b111))
					}
					check.OK(t, b.ledger.Flush(t.Context(), all))
				}
			})
		}
		group.Wait()
		wait.Until(t, "all notices", func() bool { return len(r.ids()) == tenants*3 })
		for id, n := range r.ids() {
			check.Equal(t, id+": arrivals, though no process has failed", n, 1)
		}
	})
}

func TestAReceiverThatIsDown(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		var down atomic.Bool
		down.Store(true)
		r := receiver{answer: func(Notice) error {
			if down.Load() {
				return errors.New("connection refused")
			}
			return nil
		}}
		b := bookOn(t, l, quickly(Channel{Name: "mail", Deliver: r.Deliver, Attempts: 1000}))
		spend(t, limiterOn(t, b.Store(), monthly(10)), "tenant:acme", 10)
		wait.Until(t, "some attempts", func() bool {
			n := 0
			for _, times := range r.ids() {
				n += times
			}
			return n > 8
		})
		for _, d := range deliveriesOf(t, b, DeliveryQuery{State: Waiting}) {
			if d.Err != "" && d.Err != "connection refused" {
				t.Errorf("%+v", d)
			}
		}
		down.Store(false)
		settles(t, b, Delivered, 3)
		check.Equal(t, "different ids for 3 notices", len(r.ids()), 3)
	})
}

// A receiver that hangs for one tenant holds up neither others nor the other channel, and Close
// ends within its time, with what was used written.
func TestAReceiverThatHangs(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		var good receiver
		var hanging atomic.Int64
		hangs := func(ctx context.Context, n Notice) error {
			if !strings.HasPrefix(n.Tenant, "tenant:hang") {
				return good.Deliver(ctx, n)
			}
			hanging.Add(1)
			<-ctx.Done()
			hanging.Add(-1)
			return ctx.Err()
		}
		b := bookOn(t, l, quickly(Channel{Name: "hooks", Deliver: hangs, Timeout: time.Minute, Parallel: 8}))
		limiter := limiterOn(t, b.Store(), monthly(10))
		for i := range 4 {
			spend(t, limiter, fmt.Sprintf("tenant:hang%d", i), 10)
		}
		wait.Until(t, "one attempt of each tenant that hangs", func() bool { return hanging.Load() == 4 })
		for i := range 20 {
			spend(t, limiter, fmt.Sprintf("tenant:%d", i), 10)
		}
		wait.Until(t, "the notices of others", func() bool { return len(good.ids()) == 60 })
		check.Equal(t, "attempts that hang, one of each tenant", hanging.Load(), 4)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := b.Close(ctx); err == nil || time.Since(began) > 30*time.Second { // an attempt has a minute
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		wait.Until(t, "the attempts end", func() bool { return hanging.Load() == 0 })
		check.Equal(t, "units in the ledger", b.total(t, "plan", "tenant:hang0"), 10)
		next := bookOn(t, l, quickly(Channel{Name: "hooks", Deliver: good.Deliver}))
		settles(t, next, Delivered, 72)
	})
}

func TestDeadLetters(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		var accepts atomic.Bool
		r := receiver{answer: func(n Notice) error {
			switch {
			case accepts.Load():
				return nil
			case n.Level == 80:
				return &DeliveryError{Permanent: true, Err: errors.New("gone\x00\xff")}
			case n.Level == 90:
				panic("receiver")
			}
			return errors.New("no")
		}}
		config := quickly(Channel{Name: "mail", Deliver: r.Deliver, Attempts: 3})
		var died atomic.Int64
		config.Store.Registry().OnEvent(func(e store.Event) {
			if e.Kind == EventNoticesDead {
				died.Add(e.Count)
			}
		})
		b := bookOn(t, l, config)
		spend(t, limiterOn(t, b.Store(), monthly(10)), "tenant:acme", 10)
		settles(t, b, Dead, 3)
		want := map[int]string{80: "1 gone", 90: "3 Deliver panicked: receiver", 100: "3 no"}
		got := make(map[int]string)
		var ninety Notice
		for _, d := range deliveriesOf(t, b, DeliveryQuery{State: Dead}) {
			got[d.Notice.Level] = fmt.Sprint(d.Attempts, " ", d.Err)
			if d.Notice.Level == 90 {
				ninety = d.Notice
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("attempts and errors %v, want %v", got, want)
		}
		check.Equal(t, "reported", died.Load(), 3)
		accepts.Store(true)
		if n, err := b.Redeliver(t.Context(), "mail", ninety); n != 1 || err != nil {
			t.Errorf("redelivering one: %d, %v", n, err)
		}
		settles(t, b, Delivered, 1)
		if n, err := b.Redeliver(t.Context(), "mail"); n != 2 || err != nil {
			t.Errorf("redelivering the others: %d, %v", n, err)
		}
		settles(t, b, Delivered, 3)
		check.Equal(t, "attempts of the notice, 3 and 1", r.ids()[ninety.ID], 4)
	})
}

// noticed has a ledger note a level for the channel "mail", which nobody serves yet.
func noticed(t *testing.T, l ledger.Ledger) {
	t.Helper()
	must.OK(t, l.OpenChannels(t.Context(), []string{"mail"}))
	mustFlush(t, l, reached(month("plan", "tenant:acme", time.November), 1, 1))
}

// An attempt that a process began and whose end it did not live to write is made again by
// another, when the lease is over.
func TestAttemptsOfADeadProcess(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		noticed(t, l)
		claim := func(again bool, lease time.Duration) []ledger.Delivery {
			return must.Get(l.Claim(t.Context(), "mail", again, []string{"tenant:other"}, 10, lease))(t)
		}
		const lease = 200 * time.Millisecond
		began := time.Now()
		first := claim(false, lease)
		second := claim(true, time.Minute)
		if len(first) != 1 || len(second) != 0 && time.Since(began) < lease {
			t.Fatalf("claimed %+v, and then, after %v, %+v", first, time.Since(began), second)
		}
		if len(second) == 0 {
			wait.Until(t, "the lease ends", func() bool { second = claim(true, time.Minute); return len(second) == 1 })
		}
		if a, b := noticeOf(&first[0].Notice), noticeOf(&second[0].Notice); a != b || second[0].Attempts != 2 {
			t.Errorf("%+v, then %+v", a, b)
		}
		// The first attempt was only slow. That it failed says nothing of the second.
		late := ledger.Settlement{Verdict: ledger.Dead, Err: "late"}
		must.OK(t, l.Settle(t.Context(), &first[0], &late))
		must.OK(t, l.Settle(t.Context(), &second[0], &ledger.Settlement{Verdict: ledger.Delivered}))
		for _, d := range listOf(t, l, DeliveryQuery{}) {
			check.Equal(t, "state", d.State, Delivered)
		}
	})
}

func listOf(t *testing.T, l ledger.Ledger, q DeliveryQuery) (all []Delivery) {
	t.Helper()
	must.OK(t, l.Deliveries(t.Context(), q.selection(), func(d *ledger.DeliveryRow) error { all = append(all, deliveryOf(d)); return nil }))
	return all
}

// A notice whose receiver brings the process down each time does not do so for ever.
func TestANoticeThatKills(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		noticed(t, l)
		for i := range 3 {
			if all, err := l.Claim(t.Context(), "mail", i > 0, []string{}, 1, 0); len(all) != 1 || err != nil {
				t.Fatal(all, err)
			}
		}
		var r receiver
		b := bookOn(t, l, quickly(Channel{Name: "mail", Deliver: r.Deliver, Attempts: 3}))
		settles(t, b, Dead, 1)
		check.Equal(t, "notices that were tried a fourth time", len(r.ids()), 0)
	})
}

// Channels get what was noticed after they were opened, also by processes without them.
func TestChannelsOpenAndEnd(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		acme := month("plan", "tenant:acme", time.November)
		mustFlush(t, l, reached(acme, 1, 1))
		var r receiver
		with := bookOn(t, l, quickly(Channel{Name: "mail", Deliver: r.Deliver}))
		without := bookOn(t, l, quickly())
		mustFlush(t, without.ledger, reached(acme, 2, 2))
		settles(t, with, Delivered, 1)
		check.Equal(t, "level", r.got[0].Level, 90)
		check.Fails(t, "a channel was removed that the book serves", with.RemoveChannel(t.Context(), "mail"), "")
		closeBook(t, with)
		check.OK(t, without.RemoveChannel(t.Context(), "mail"))
		check.Is(t, "it was removed twice", without.RemoveChannel(t.Context(), "mail"), ErrUnknownChannel)
		check.Is(t, "its deliveries", without.Deliveries(t.Context(), DeliveryQuery{Channel: "mail"}, func(Delivery) error { return nil }), ErrUnknownChannel)
		check.Is(t, "having them delivered again", check.ErrorOf(without.Redeliver(t.Context(), "mail")), ErrUnknownChannel)
		mustFlush(t, l, reached(acme, 3, 4))
		check.Equal(t, "deliveries after it was removed", len(deliveriesOf(t, without, DeliveryQuery{})), 0)
	})
}

func TestChannelsAndExportsThatAreWrong(t *testing.T) {
	t.Parallel()
	deliver := func(context.Context, Notice) error { return nil }
	send := func(context.Context, []Increment) error { return nil }
	for _, c := range []Config{
		{Notices: []Channel{{Deliver: deliver}}},
		{Notices: []Channel{{Name: "a b", Deliver: deliver}}},
		{Notices: []Channel{{Name: "a"}}},
		{Notices: []Channel{{Name: "a", Deliver: deliver}, {Name: "a", Deliver: deliver}}},
		{Notices: []Channel{{Name: "a", Deliver: deliver, Timeout: time.Hour}}},
		{Notices: []Channel{{Name: "a", Deliver: deliver, Attempts: -1}}},
		{Notices: []Channel{{Name: "a", Deliver: deliver, Backoff: -1}}},
		{Notices: []Channel{{Name: "a", Deliver: deliver, Parallel: 1e6}}},
		{Exports: []Export{{Send: send}}},
		{Exports: []Export{{Name: "a"}}},
		{Exports: []Export{{Name: "a", Send: send}, {Name: "a", Send: send}}},
		{Exports: []Export{{Name: "a", Send: send, Every: 1}}},
		{Exports: []Export{{Name: "a", Send: send, Batch: 100_000}}},
		{Exports: []Export{{Name: "a", Send: send, Timeout: -1}}},
		{Exports: []Export{{Name: "a", Send: send, Limits: []string{""}}}},
		{Exports: []Export{{Name: "a", Send: send, Since: time.Unix(-1, 0)}}},
	} {
		c.Store = fresh()
		if err := c.complete(); err == nil || !strings.HasPrefix(err.Error(), "weblimit: quota: ") {
			t.Errorf("%+v %+v: %v", c.Notices, c.Exports, err)
		}
	}
}

// hasty is a ledger whose first settlement has little time.
type hasty struct {
	ledger.Ledger
	failed chan struct{} // closed when the first settlement has failed
	once   *sync.Once
}

func (h hasty) Settle(ctx context.Context, d *ledger.Delivery, s *ledger.Settlement) (err error) {
	call := h.Ledger.Settle
	h.once.Do(func() {
		within, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		err = h.Ledger.Settle(within, d, s)
		close(h.failed)
		call = func(context.Context, *ledger.Delivery, *ledger.Settlement) error { return err }
	})
	return call(ctx, d, s)
}

// While PostgreSQL hangs, an attempt's end waits, and is then written once.
func TestALedgerThatIsAwayWhenAnAttemptEnds(t *testing.T) {
	t.Parallel()
	l := pgLedgerOf(t)
	first := make(chan bool)
	var times atomic.Int64
	config := quickly(Channel{Name: "mail", Deliver: func(context.Context, Notice) error {
		if times.Add(1) == 1 {
			first <- true
			<-first
		}
		return nil
	}})
	h := hasty{Ledger: l, failed: make(chan struct{}), once: new(sync.Once)}
	b := bookOn(t, h, config)
	mustFlush(t, l, reached(month("plan", "tenant:acme", time.November), 1, 1))
	<-first
	letGo := locked(t, l, "delivery")
	first <- true
	<-h.failed
	letGo()
	settles(t, b, Delivered, 1)
	check.Equal(t, "times delivered", times.Load(), 1)
}

// A process that starts while PostgreSQL is away opens its channels and exports when it is back.
func TestReceiversOfAStartWithoutPostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	pool := connect(t, server.Database(t))
	server.Kill()
	var r receiver
	e := newEngine(t)
	config := quickly(Channel{Name: "mail", Deliver: r.Deliver})
	config.Exports = exporting(Export{Name: "billing", Send: e.Send}).Exports
	config.StartWithoutLedger, config.Timeout = true, time.Minute
	b := must.Get(Open(t.Context(), pool, config))(t)
	t.Cleanup(func() { closeBook(t, b) })
	limiter := limiterOn(t, b.Store(), monthly(10))
	server.Restart(t)
	b.flusher.present(t.Context()) // as it does by itself every five seconds
	wait.Until(t, "all is used", func() bool {
		d := limiter.AllowKey(t.Context(), "tenant:acme", 1)
		return d.Err == nil && !d.Allowed
	})
	wait.Until(t, "the engine has the use", func() bool { return e.equals(t, b.ledger) })
	wait.Until(t, "the channel is open", func() bool {
		mustFlush(t, b.ledger, reached(month("plan", "tenant:other", time.November), 1, 1), reached(month("plan", fmt.Sprint(time.Now()), time.November), 1, 1))
		return len(r.ids()) > 0
	})
}
