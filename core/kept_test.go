package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// refusing is a store in memory, by synctest's clock, that can refuse what settles requests:
// nothing is changed then.
type refusing struct {
	intercepted
	down    atomic.Bool
	unclear atomic.Bool // the store does not say that nothing is changed
	refused atomic.Int64
	told    atomic.Int64
	held    chan struct{} // nil, or closed when it may refuse
}

func newRefusing() *refusing {
	s := new(refusing)
	s.intercepted = intercept(s.settles)
	return s
}

func (s *refusing) settles(_ context.Context, call string, checks []core.Check) error {
	switch {
	case call == "Take" || call == "Peek":
		return nil
	case !s.down.Load():
		s.told.Add(1)
		return nil
	case s.held != nil:
		<-s.held
	}
	s.refused.Add(1)
	err := &store.Error{Class: store.ClassOpen, Node: "node"}
	if s.unclear.Load() {
		return err
	}
	var all []int
	for i := range checks {
		all = append(all, i)
	}
	return &store.Undone{Checks: all, Err: err}
}

// heardBy collects the events of lost settlements.
func heardBy(s *refusing) *[]core.Event {
	var lost []core.Event
	s.OnEvent(func(e core.Event) {
		if e.Kind == store.EventSettlementsLost {
			lost = append(lost, e)
		}
	})
	return &lost
}

func remaining(t *testing.T, l *core.Limiter, i int) int64 {
	t.Helper()
	d := must.Get(l.Peek(t.Context(), "k", 0))(t)
	return d.Results()[i].Remaining
}

// What a store refuses is told once when it answers again: refunds, charges and slots.
func TestSettlementsOutliveAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newRefusing()
		lost := heardBy(s)
		var settled []core.Settlement
		l := newLimiter(t, core.Config{Store: s, Observe: settledOnly(func(o core.Settlement) { settled = append(settled, o) }), Limits: []core.Limit{
			everyone(1000).FixedWindow().Named("estimated").Estimate(500),
			everyone(10).FixedWindow().Named("refunded").RefundOn(core.Failures),
			running(3),
		}})
		s.down.Store(true)
		d := l.AllowKey(t.Context(), "k", 1)
		must.OK(t, core.Spend(core.NewContext(t.Context(), d), 700))
		d.Settle(core.Outcome{Status: 500})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(settled) != 0 || s.refused.Load() < 5 || s.refused.Load() > 25 {
			t.Errorf("%d settlements are reported after %d tries", len(settled), s.refused.Load())
		}
		s.down.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		for i, want := range []int64{300, 10, 3} {
			check.Equal(t, fmt.Sprintf("left of limit %d", i), remaining(t, l, i), want)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		check.Equal(t, "calls, settlements reported and lost", [3]int{int(s.told.Load()), len(settled), len(*lost)}, [3]int{2, 3, 0})
		for _, o := range settled {
			if o.Err != nil {
				t.Error(o)
			}
		}
		check.OK(t, l.Drain(t.Context()))
	})
}

// settledOnly is an observer of settlements. They come one after the other here.
type settledOnlyObserver struct {
	core.NopObserver
	f func(core.Settlement)
}

func settledOnly(f func(core.Settlement)) core.Observer { return &settledOnlyObserver{f: f} }

func (o *settledOnlyObserver) Settled(s core.Settlement) { o.f(s) }

// A window's charges and refunds mean nothing in the next one, and those of a bucket count as
// far as it has not refilled.
func TestSettlementsAreToldOnlyWhileTheyCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		limit core.Limit
		at    time.Duration // of the day, when the request comes
		spend int64         // what the handler reports, of an estimate of 10
		after time.Duration // until the store answers
		want  int64         // left then
		lost  int           // settlements
	}{
		{"a charge in its window", core.PerMinute(100).FixedWindow(), 0, 40, 30 * time.Second, 60, 0},
		{"a charge in the next window", core.PerMinute(100).FixedWindow(), 0, 40, 70 * time.Second, 100, 1},
		{"a refund in the next window", core.PerMinute(100).FixedWindow(), 0, 4, 70 * time.Second, 100, 1},
		{"a charge of a bucket that refills", core.PerMinute(60).Burst(100), 0, 100, 20 * time.Second, 20, 0},
		{"a charge of a bucket that has refilled", core.PerMinute(60).Burst(100), 0, 40, 2 * time.Minute, 100, 1},
		{"a refund of a bucket that has refilled", core.PerMinute(60).Burst(100), 0, 4, 2 * time.Minute, 100, 1},
		{"a charge of a log that has forgotten it", core.PerMinute(100).SlidingLog(), 0, 40, 2 * time.Minute, 100, 1},
		{"a charge of yesterday", core.PerCalendarDay(100, time.UTC), 22 * time.Hour, 40, 150 * time.Minute, 100, 1},
		{"a charge of today", core.PerCalendarDay(100, time.UTC), 22 * time.Hour, 40, 90 * time.Minute, 60, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				time.Sleep(tt.at) // a bubble begins at midnight
				s := newRefusing()
				lost := heardBy(s)
				l := limiterOn(t, s, forAll(tt.limit).Named("l").Estimate(10))
				d := l.AllowKey(t.Context(), "k", 10)
				s.down.Store(true)
				must.OK(t, core.Spend(core.NewContext(t.Context(), d), tt.spend))
				d.Settle(core.Outcome{Status: 200})
				time.Sleep(tt.after)
				s.down.Store(false)
				time.Sleep(time.Second)
				synctest.Wait()
				want := tt.want
				if got := remaining(t, l, 0); got < want || got > want+2 {
					t.Errorf("%d left, want %d", got, want)
				}
				check.Equal(t, "settlements lost", len(*lost), tt.lost)
			})
		})
	}
}

// Slots whose lease has ended belong to others.
func TestSlotsAreFreedWithinTheirLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newRefusing()
		lost := heardBy(s)
		l := limiterOn(t, s, running(2).Lease(10*time.Second))
		d := l.AllowKey(t.Context(), "k", 1)
		time.Sleep(time.Minute) // the lease is renewed
		s.down.Store(true)
		d.Settle(core.Outcome{})
		time.Sleep(11 * time.Second)
		s.down.Store(false)
		before := s.told.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		check.Equal(t, "calls, lost and left", [3]int64{s.told.Load() - before, int64(len(*lost)), remaining(t, l, 0)}, [3]int64{0, 1, 2})
	})
}

// A renewal that the store refused is tried again before a third of the lease has passed.
func TestRenewalsThatAreRefusedAreTriedSoon(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newRefusing()
		s.OnEvent(func(core.Event) {})
		l := limiterOn(t, s, running(1).Lease(time.Minute))
		d := l.AllowKey(t.Context(), "k", 1)
		s.down.Store(true)
		time.Sleep(55 * time.Second)
		s.down.Store(false)
		time.Sleep(10 * time.Second)
		check.Equal(t, "slots free while the request runs", remaining(t, l, 0), 0)
		d.Settle(core.Outcome{})
		synctest.Wait()
		check.Equal(t, "slots free after it", remaining(t, l, 0), 1)
	})
}

// What may have been done is not tried again, and one event says how many were lost.
func TestSettlementsThatMayBeDoneAreNotRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newRefusing()
		lost := heardBy(s)
		l := limiterOn(t, s, everyone(100).FixedWindow().Named("refunded").RefundOn(core.Failures))
		var ds []core.Decision
		for range 20 {
			ds = append(ds, l.AllowKey(t.Context(), "k", 1))
		}
		s.down.Store(true)
		s.unclear.Store(true)
		s.held = make(chan struct{})
		for i := range ds {
			ds[i].Settle(core.Outcome{Status: 500})
		}
		check.Fails(t, "Drain", drainThen(t, l, func() { close(s.held) }), "lost: ")
		s.down.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		count := int64(0)
		for _, e := range *lost {
			count += e.Count
		}
		if s.told.Load() != 0 || s.refused.Load() != 20 || len(*lost) > 2 || count != 20 {
			t.Errorf("%d calls after %d, %d events of %d settlements", s.told.Load(), s.refused.Load(), len(*lost), count)
		}
		check.OK(t, l.Drain(t.Context()))
	})
}

// Drain tries until its context ends, and says what is left.
func TestDrainSaysWhatIsNotSettled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newRefusing()
		s.OnEvent(func(core.Event) {})
		l := limiterOn(t, s, everyone(100).FixedWindow().Named("refunded").RefundOn(core.Failures))
		s.down.Store(true)
		for range 3 {
			d := l.AllowKey(t.Context(), "k", 1)
			d.Settle(core.Outcome{Status: 500})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := l.Drain(ctx)
		check.Is(t, "Drain", err, context.DeadlineExceeded)
		check.Equal(t, "Drain", fmt.Sprint(err), "weblimit: requests that are not settled: 3: context deadline exceeded")
		began := time.Now()
		if err := l.Drain(context.Background()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 11*time.Second {
			t.Errorf("Drain without a deadline: %v after %v", err, time.Since(began))
		}
		go func() {
			time.Sleep(time.Second)
			s.down.Store(false)
		}()
		check.OK(t, l.Drain(t.Context()))
		check.Equal(t, "left", remaining(t, l, 0), 100)
	})
}

// What is kept is bounded, and the rest is reported.
func TestKeptSettlementsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const requests, kept = 17_000, 16_384
		s := newRefusing()
		lost := heardBy(s)
		l := limiterOn(t, s, everyone(requests).FixedWindow().Named("refunded").RefundOn(core.Failures))
		s.down.Store(true)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for n := range requests {
			d := l.AllowKey(t.Context(), fmt.Sprint("some-kind-of-user:", n), 1)
			d.Settle(core.Outcome{Status: 500})
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		t.Logf("%d bytes each", (after.HeapAlloc-before.HeapAlloc)/kept)
		s.down.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		count := int64(0)
		for _, e := range *lost {
			count += e.Count
		}
		if s.told.Load() != kept || count != requests-kept || len(*lost) > 2 {
			t.Errorf("%d told, %d lost in %d events", s.told.Load(), count, len(*lost))
		}
	})
}

// A store that the application has dropped is garbage, whatever is kept for it.
func TestKeptSettlementsHoldNoStore(t *testing.T) {
	t.Parallel()
	dropped := func() weak.Pointer[refusing] {
		s := newRefusing()
		s.OnEvent(func(core.Event) {})
		s.down.Store(true)
		l := limiterOn(t, s, everyone(9).FixedWindow().Named("refunded").RefundOn(core.Failures))
		d := l.AllowKey(t.Context(), "k", 1)
		d.Settle(core.Outcome{Status: 500})
		return weak.Make(s)
	}()
	for start := time.Now(); dropped.Value() != nil; {
		if runtime.GC(); time.Since(start) > time.Minute {
			t.Fatal("the store is not collected")
		}
	}
}
