package quota

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// turnless is a ledger that is asked for turns, and does not answer.
type turnless struct{ ledger.Ledger }

func (turnless) BeginPass(context.Context, *ledger.Pass) (bool, error) {
	return false, errors.New("away")
}

// While the ledger is away, an export that asks it each second says so each minute.
func TestALedgerThatIsAwayIsReportedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := fresh()
		var seen events
		seen.on(m)
		b := bookOn(t, turnless{memledger.New(defaultLevels)}, Config{Store: m, Exports: []Export{{Name: "billing", Every: time.Second, Send: func(context.Context, []Increment) error { return nil }}}})
		time.Sleep(10 * time.Minute)
		if n := seen.count(EventExportFailing); n < 9 || n > 11 {
			t.Errorf("reported %d times in ten minutes", n)
		}
		closeBook(t, b)
	})
}

// A server that takes a connection and says nothing, and one that is frozen before it listens, keep no book deaf to
// changes for good.
func TestListeningToASilentServer(t *testing.T) {
	t.Parallel()
	mute := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = mute.Close() })
	frozen := pgtest.Start(t)
	for name, c := range map[string]struct {
		connString string
		connected  func()
	}{
		"connecting": {"postgres://a@" + mute.Addr().String() + "/a?sslmode=disable", func() {}},
		"listening":  {frozen.ConnString(""), func() { frozen.Freeze(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := must.Get(pgxpool.ParseConfig(c.connString))(t)
			config.ConnConfig.AfterConnect = func(context.Context, *pgconn.PgConn) error { c.connected(); return nil }
			pool := must.Get(pgxpool.NewWithConfig(t.Context(), config))(t)
			t.Cleanup(pool.Close)
			l := pgledger.New(pool, "book", defaultLevels)
			l.Silence = 500 * time.Millisecond
			ended := make(chan error, 1)
			go func() { ended <- l.Listen(t.Context(), func() {}, func(string, string) {}) }()
			select {
			case err := <-ended:
				check.Fails(t, "listening", err, "")
			case <-time.After(30 * time.Second):
				t.Error("it still waits after 30 seconds")
			}
		})
	}
}
