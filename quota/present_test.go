package quota

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
)

// Of several processes one looks for what another has left behind, and only one that can.
func TestOneProcessLooksForWhatAnotherLeft(t *testing.T) {
	t.Parallel()
	l := pgLedgerOf(t)
	present := func(process string, limits ...string) []string {
		t.Helper()
		return goneSince(t, l, process, time.Minute, limits...)
	}
	pass := func() { // a minute and a second
		t.Helper()
		must.Get(l.Pool.Exec(t.Context(), l.SQL(`UPDATE {schema}.process SET seen = seen - interval '61 seconds'`)))(t)
	}
	if gone := present("killed", "plan"); len(gone) > 0 {
		t.Errorf("%v are gone", gone)
	}
	pass()
	for _, tt := range []struct {
		process, limit string
		want           []string
	}{{"of another service", "other", nil}, {"first", "plan", []string{"killed"}}, {"second", "plan", nil}} {
		check.Slices(t, tt.process+": gone", present(tt.process, tt.limit), tt.want)
	}
	pass() // the first did not get to it
	present("second", "plan")
	pass()
	check.Equal(t, "gone, the one that was killed and two more", len(present("first", "plan", "other")), 3)
	must.OK(t, l.Leave(t.Context(), "killed", "second", "of another service"))
	pass()
	if gone := present("first", "plan", "other"); len(gone) > 0 {
		t.Errorf("%v are gone after they have left", gone)
	}
}

func TestWhatAKilledProcessLeftIsFound(t *testing.T) {
	t.Parallel()
	l := pgLedgerOf(t)
	m := fresh() // a store that outlives the process
	killed := bookOn(t, l, byHand(m))
	limiterOn(t, killed.Store(), monthly(100))
	killed.flusher.present(t.Context())
	takeFrom(t, killed, "tenant:acme", 9)
	killed.stop()
	killed.running.Wait()
	must.Get(l.Pool.Exec(t.Context(), l.SQL(`UPDATE {schema}.process SET seen = seen - interval '31 seconds'`)))(t)
	other := bookOn(t, l, byHand(m))
	// It looks by itself when it starts, and then again.
	wait.Until(t, "the process that was killed is not there any more", func() bool {
		var left int
		must.OK(t, l.Pool.QueryRow(t.Context(), l.SQL(`SELECT count(*) FROM {schema}.process WHERE id = $1`), killed.process).Scan(&left))
		return left == 0
	})
	wantUnits(t, other, 9)
}

// hearing is a ledger that notes for how long a process was silent.
type hearing struct {
	ledger.Ledger
	last    time.Time
	longest time.Duration
}

func (h *hearing) Present(ctx context.Context, process string, limits []string, lostAfter time.Duration) ([]string, time.Time, error) {
	if !h.last.IsZero() {
		h.longest = max(h.longest, time.Since(h.last))
	}
	h.last = time.Now()
	return h.Ledger.Present(ctx, process, limits, lostAfter)
}

// A process that writes seldom says that it is there as often as others, or these look for what it left.
func TestAProcessThatWritesSeldomIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hearing{Ledger: memledger.New(defaultLevels)}
		b := bookOn(t, h, Config{Store: fresh(), FlushEvery: maxFlushEvery})
		time.Sleep(2 * lostAfter)
		closeBook(t, b)
		if h.longest == 0 || h.longest > lostAfter/2 {
			t.Errorf("it was silent for %v, and is taken for gone after %v", h.longest, lostAfter)
		}
	})
}

// leaving is a ledger that takes a second to note that a process is there, and notes what it has been asked.
type leaving struct {
	ledger.Ledger
	asked []string
}

func (l *leaving) Present(ctx context.Context, process string, limits []string, lostAfter time.Duration) ([]string, time.Time, error) {
	select {
	case <-ctx.Done():
		l.asked = append(l.asked, "present, called back")
		return nil, time.Time{}, ctx.Err()
	case <-time.After(time.Second):
	}
	l.asked = append(l.asked, "present")
	return l.Ledger.Present(ctx, process, limits, lostAfter)
}

func (l *leaving) Leave(ctx context.Context, processes ...string) error {
	l.asked = append(l.asked, "leave")
	return l.Ledger.Leave(ctx, processes...)
}

// A book that is closed leaves after it has said for the last time that it is there, or others look for it.
func TestABookLeavesLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &leaving{Ledger: memledger.New(defaultLevels)}
		b := bookOn(t, l, Config{Store: fresh()})
		synctest.Wait() // it says that it is there
		closeBook(t, b)
		check.Slices(t, "asked", l.asked, []string{"present", "leave"})
	})
}
