package quota

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// eachClock runs a test over both ledgers, with a clock that the test sets ahead. Others may be at their tables.
func eachClock(t *testing.T, f func(t *testing.T, l ledger.Ledger, setAhead func(time.Duration))) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		l := memledger.New(defaultLevels)
		f(t, l, func(d time.Duration) { l.Now = func() time.Time { return time.Now().Add(d) } })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		l, clock := clockedLedgerOf(t)
		f(t, l, func(d time.Duration) { clock.SetAhead(t, d) })
	})
}

// clockedLedgerOf returns an empty ledger, and its server's clock.
func clockedLedgerOf(t *testing.T) (*pgledger.Ledger, *pgtest.Clock) {
	t.Helper()
	connString, clock := pgtest.Shared(t).ClockedDatabase(t)
	l := pgledger.New(connect(t, connString), "weblimit", defaultLevels)
	must.OK(t, l.Migrate(t.Context()))
	return l, clock
}

// begins reports whether a process may begin a pass.
func begins(t *testing.T, l ledger.Ledger, process string) (*ledger.Pass, bool) {
	t.Helper()
	p := &ledger.Pass{Name: "billing", Process: process, Lease: time.Minute}
	ok := must.Get(l.BeginPass(t.Context(), p))(t)
	return p, ok
}

// PostgreSQL's clock was ahead: what was written then holds up nothing.
func TestAnExportAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{10 * time.Second, time.Hour, 24 * 365 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			l, clock := clockedLedgerOf(t)
			clock.SetAhead(t, ahead)
			mustOpenExport(t, l, time.Time{})
			first, _ := begins(t, l, "one")
			must.OK(t, l.EndPass(t.Context(), first, true, time.Minute))
			clock.SetAhead(t, 0)
			two, ok := begins(t, l, "two")
			if now := time.Now().Add(time.Minute); !ok || !two.Whole || two.Since.After(now) {
				t.Fatalf("the next pass is due after %v: begins %v, %+v", ahead, ok, two)
			}
			must.OK(t, l.EndPass(t.Context(), two, true, 0))

			clock.SetAhead(t, ahead)
			begins(t, l, "killed") // and keeps its lease
			clock.SetAhead(t, 0)
			last, ok := begins(t, l, "three")
			check.Equal(t, "the lease of a process that is gone has ended", ok, true)
			must.OK(t, l.EndPass(t.Context(), last, true, time.Hour))
			if _, ok := begins(t, l, "four"); ok {
				t.Error("a pause is not kept by a clock that is right")
			}
		})
	}
}

// A second is no step: servers' clocks are set by that much all the time.
func TestALeaseOutlivesASmallStep(t *testing.T) {
	t.Parallel()
	l, clock := clockedLedgerOf(t)
	mustOpenExport(t, l, beginning)
	begins(t, l, "one")
	clock.SetAhead(t, -900*time.Millisecond)
	if _, ok := begins(t, l, "two"); ok {
		t.Error("a process has lost its lease")
	}
}

// PostgreSQL was killed in the middle of a pass, whose end could not be written: the process that was at it does
// not wait for its own lease.
func TestAProcessHasItsOwnLeaseBack(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		mustOpenExport(t, l, beginning)
		for range 2 {
			if _, ok := begins(t, l, "one"); !ok {
				t.Fatal("it waits for its own lease")
			}
		}
		if _, ok := begins(t, l, "two"); ok {
			t.Error("two processes do a pass")
		}
	})
}

// A page can take many calls of a slow receiver: each that it answers renews the lease.
func TestTheLeaseIsRenewedWithEachBatch(t *testing.T) {
	eachClock(t, func(t *testing.T, l ledger.Ledger, setAhead func(time.Duration)) {
		mustOpenExport(t, l, beginning)
		p, _ := begins(t, l, "one")
		for i := 1; i <= 5; i++ {
			setAhead(time.Duration(i) * 50 * time.Second)
			must.OK(t, l.Sent(t.Context(), p, nil))
			if _, ok := begins(t, l, "two"); ok {
				t.Fatalf("after %d batches another process does the pass", i)
			}
		}
		setAhead(10 * time.Minute)
		if _, ok := begins(t, l, "two"); !ok {
			t.Error("the lease does not end")
		}
	})
}

// Notices that were made, claimed or put off while PostgreSQL's clock was ahead don't wait for it.
func TestNoticesAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	l, clock := clockedLedgerOf(t)
	must.OK(t, l.OpenChannels(t.Context(), []string{"mail"}))
	claim := func(again bool) []ledger.Delivery {
		t.Helper()
		return must.Get(l.Claim(t.Context(), "mail", again, []string{}, 10, time.Minute))(t)
	}
	clock.SetAhead(t, time.Hour)
	for _, tenant := range []string{"tenant:killed", "tenant:failed"} {
		mustFlush(t, l, reached(month("plan", tenant, time.November), 1, 1))
	}
	all := claim(false) // and the one process is killed
	check.Equal(t, "claimed", len(all), 2)
	for i := range all {
		if all[i].Key == "tenant:failed" {
			must.OK(t, l.Settle(t.Context(), &all[i], &ledger.Settlement{Verdict: ledger.Failed, Pause: time.Minute, Err: errors.New("down").Error()}))
		}
	}
	mustFlush(t, l, reached(month("plan", "tenant:made", time.November), 1, 1))
	clock.SetAhead(t, 0)
	check.Equal(t, "notices that were made then", len(claim(false)), 1)
	claim(true) // finds those that wait for a clock
	check.Equal(t, "attempts that were begun or put off then", len(claim(true)), 2)
	check.Equal(t, "attempts that are on their way", len(claim(true)), 0)
}

// A clock that is set back is told of once, and not for each row that was written by the later clock; one that is set
// ahead, or by half a second, is not.
func TestAClockThatIsSetBackIsReported(t *testing.T) {
	t.Parallel()
	l, clock := clockedLedgerOf(t)
	m := fresh()
	var seen, by atomic.Int64
	m.OnEvent(func(e core.Event) {
		if e.Kind == EventLedgerClockSetBack {
			seen.Add(1)
			by.Store(int64(e.Duration))
		}
	})
	b := bookOn(t, l, byHand(m))
	look := func(what string, want int64) {
		t.Helper()
		for range 2 {
			b.flusher.present(t.Context()) // as it does by itself every five seconds
		}
		check.Equal(t, what+": events", seen.Load(), want)
	}
	look("a clock that is right", 0)
	clock.SetAhead(t, time.Hour)
	look("one that is set ahead", 0)
	clock.SetAhead(t, time.Hour-500*time.Millisecond)
	look("half a second back", 0)
	clock.SetAhead(t, 0)
	look("set back", 1)
	if d := time.Duration(by.Load()); d > time.Hour || d < time.Hour/2 {
		t.Errorf("it was set back by %v, as the event has it, and by an hour less half a second", d)
	}
	clock.SetAhead(t, -10*time.Minute)
	look("set back again", 2)
}

// A slow answer is no clock that was set back.
func TestAStepOfTheLedgersClock(t *testing.T) {
	t.Parallel()
	var c ledgerClock
	start := time.Now()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for i, tt := range []struct{ clock, asked, answered, want float64 }{
		{clock: 100, asked: 0, answered: 0.1},
		{clock: 105, asked: 5, answered: 5.1},
		{clock: 105.1, asked: 5.2, answered: 9},             // answers late
		{clock: 114, asked: 10, answered: 14.1},             // asks late
		{clock: 118.2, asked: 19, answered: 19.1},           // set back by less than a second
		{clock: 120, asked: 24, answered: 24.1, want: 3.1},  // by 3 seconds, of which one is not sure
		{clock: 121, asked: 25, answered: 25.1},             // and goes on
		{clock: 200, asked: 26, answered: 26.1},             // set ahead
		{clock: 27, asked: 27, answered: 27.1, want: 173.9}, // and right
	} {
		if got := c.saw(at(tt.clock), at(tt.asked), at(tt.answered)); got.Round(time.Millisecond) != time.Duration(tt.want*1000)*time.Millisecond {
			t.Errorf("answer %d: set back by %v, want %vs", i, got, tt.want)
		}
	}
	check.Equal(t, "of a ledger without a clock", c.saw(time.Time{}, at(30), at(30.1)), 0)
}

// goneSince has a process say that it is there, and returns those that are not.
func goneSince(t *testing.T, l ledger.Ledger, process string, lost time.Duration, limits ...string) []string {
	t.Helper()
	gone, _, err := l.Present(t.Context(), process, limits, lost)
	must.OK(t, err)
	return gone
}

// Nor do others wait to look for what a process has left behind that was gone while the clock was ahead.
func TestAProcessThatIsGoneAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	l, clock := clockedLedgerOf(t)
	present := func(process string) []string {
		return goneSince(t, l, process, time.Minute, "plan")
	}
	clock.SetAhead(t, time.Hour)
	present("killed")
	clock.SetAhead(t, 0)
	check.Slices(t, "gone", present("first"), []string{"killed"})
	check.Equal(t, "gone, of which one has been told", len(present("first")), 0)
}
