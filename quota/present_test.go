package quota

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
)

// Of several processes one looks for what another has left behind, and only one that can.
func TestOneProcessLooksForWhatAnotherLeft(t *testing.T) {
	t.Parallel()
	l := newPGLedger(poolOf(t), "weblimit", defaultLevels)
	if err := l.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	present := func(process string, limits ...string) []string {
		t.Helper()
		gone, err := l.present(t.Context(), process, limits, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return gone
	}
	pass := func() { // a minute and a second
		t.Helper()
		if _, err := l.pool.Exec(t.Context(), l.sql(`UPDATE {schema}.process SET seen = seen - interval '61 seconds'`)); err != nil {
			t.Fatal(err)
		}
	}
	if gone := present("killed", "plan"); len(gone) > 0 {
		t.Errorf("%v are gone", gone)
	}
	pass()
	for _, tt := range []struct {
		process, limit string
		want           []string
	}{{"of another service", "other", nil}, {"first", "plan", []string{"killed"}}, {"second", "plan", nil}} {
		if gone := present(tt.process, tt.limit); !slices.Equal(gone, tt.want) {
			t.Errorf("%s: %v are gone, want %v", tt.process, gone, tt.want)
		}
	}
	pass() // the first did not get to it
	present("second", "plan")
	pass()
	if gone := present("first", "plan", "other"); len(gone) != 3 {
		t.Errorf("%v are gone, want the one that was killed and two more", gone)
	}
	if err := l.leave(t.Context(), "killed", "second", "of another service"); err != nil {
		t.Fatal(err)
	}
	pass()
	if gone := present("first", "plan", "other"); len(gone) > 0 {
		t.Errorf("%v are gone after they have left", gone)
	}
}

func TestWhatAKilledProcessLeftIsFound(t *testing.T) {
	t.Parallel()
	l := newPGLedger(poolOf(t), "weblimit", defaultLevels)
	if err := l.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := memstore.New(memstore.Config{}) // a store that outlives the process
	killed := bookOn(t, l, Config{Store: m, FlushEvery: time.Minute})
	limiterOn(t, killed.Store(), monthly(100))
	killed.flusher.present(t.Context())
	checks, results := planCheck(t, 9), make([]store.Result, 1)
	if err := killed.Store().Take(t.Context(), checks, results); err != nil {
		t.Fatal(err)
	}
	killed.stop()
	killed.running.Wait()
	if _, err := l.pool.Exec(t.Context(), l.sql(`UPDATE {schema}.process SET seen = seen - interval '31 seconds'`)); err != nil {
		t.Fatal(err)
	}
	other := bookOn(t, l, Config{Store: m, FlushEvery: time.Minute})
	// It looks by itself when it starts, and then again.
	eventually(t, "the process that was killed is not there any more", func() bool {
		var left int
		if err := l.pool.QueryRow(t.Context(), l.sql(`SELECT count(*) FROM {schema}.process WHERE id = $1`), killed.process).Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	if got := other.total(t, "plan", "tenant:acme"); got != 9 {
		t.Errorf("the ledger has %d units, want 9", got)
	}
}

// hearing is a ledger that notes for how long a process was silent.
type hearing struct {
	ledger
	last    time.Time
	longest time.Duration
}

func (h *hearing) present(ctx context.Context, process string, limits []string, lostAfter time.Duration) ([]string, error) {
	if !h.last.IsZero() {
		h.longest = max(h.longest, time.Since(h.last))
	}
	h.last = time.Now()
	return h.ledger.present(ctx, process, limits, lostAfter)
}

// A process that writes seldom says that it is there as often as others, or these look for what it left.
func TestAProcessThatWritesSeldomIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hearing{ledger: newMemoryLedger(defaultLevels)}
		b := bookOn(t, h, Config{Store: memstore.New(memstore.Config{}), FlushEvery: maxFlushEvery})
		time.Sleep(2 * lostAfter)
		closeBook(t, b)
		if h.longest == 0 || h.longest > lostAfter/2 {
			t.Errorf("it was silent for %v, and is taken for gone after %v", h.longest, lostAfter)
		}
	})
}
