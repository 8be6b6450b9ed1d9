package quota

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota/internal/delivery"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// asked is a ledger that notes how it answers the question whether a pass may begin.
type asked struct {
	ledger.Ledger
	began, refused, failed atomic.Int64
	sentFails              atomic.Bool
}

func (a *asked) BeginPass(ctx context.Context, p *ledger.Pass) (bool, error) {
	ok, err := a.Ledger.BeginPass(ctx, p)
	switch {
	case err != nil:
		a.failed.Add(1)
	case ok:
		a.began.Add(1)
	default:
		a.refused.Add(1)
	}
	return ok, err
}

func (a *asked) Sent(ctx context.Context, p *ledger.Pass, all []ledger.Increment) error {
	if a.sentFails.Load() {
		return errCrash
	}
	return a.Ledger.Sent(ctx, p, all)
}

// A pass that the ledger has broken off goes on with the next question, however often passes are due, and is sent with the
// same ids; the receiver has done nothing to be left alone for.
func TestAPassThatTheLedgerBreaksOff(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		e := newEngine(t)
		a := &asked{Ledger: l}
		a.sentFails.Store(true)
		b := bookOn(t, a, byHand(fresh()))
		mustOpenExport(t, l, beginning)
		export := e.billing()
		export.Every = time.Hour
		s := delivery.NewSender(&b.delivery, export.receiver())
		spend(t, limiterOn(t, b.Store(), monthly(100)), "tenant:acme", 5)
		mustFlushBook(t, b)
		for n := range 8 {
			a.sentFails.Store(n < 7)
			s.Work(t.Context(), t.Context())
			check.Equal(t, "passes that began", a.began.Load(), int64(n+1))
		}
		check.Equal(t, "the engine has what the ledger has", e.equals(t, l), true)
		check.Equal(t, "repeats, of one increment that it knew", e.repeat, 7)
		s.Work(t.Context(), t.Context())
		check.Equal(t, "questions before the next pass is due", a.refused.Load(), 1)
	})
}

// PostgreSQL is killed while a receiver is being told: as soon as it answers, with its first answer, the pass goes on. Questions
// are a second apart at most, and half a second more.
func TestAnExportWhenPostgreSQLIsBack(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	l := pgledger.New(connect(t, server.Database(t)), "weblimit", defaultLevels)
	must.OK(t, l.Migrate(t.Context()))
	a := &asked{Ledger: l}
	e := newEngine(t)
	sending, killed := make(chan struct{}, 100), make(chan struct{})
	e.answer = func([]Increment) error {
		sending <- struct{}{}
		<-killed
		return nil
	}
	b := bookOn(t, a, Config{Store: fresh(), FlushEvery: 10 * time.Millisecond, Exports: []Export{{Name: "billing", Send: e.Send, Since: beginning}}})
	spend(t, limiterOn(t, b.Store(), monthly(100)), "tenant:acme", 5)
	<-sending
	server.Kill()
	close(killed)
	wait.Until(t, "it is asked while it is away", func() bool { return a.failed.Load() > 0 })
	refused, began := a.refused.Load(), a.began.Load()
	server.Restart(t)
	back := time.Now()
	wait.Until(t, "the pass goes on", func() bool { return a.began.Load() > began })
	t.Logf("the pass goes on after %v", time.Since(back))
	check.Equal(t, "questions that were answered with no before", a.refused.Load(), refused)
	wait.Until(t, "the engine has what the ledger has", func() bool { return e.equals(t, l) })
}
