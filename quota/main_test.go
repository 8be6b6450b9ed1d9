package quota

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// both stops the servers of PostgreSQL and Redis after the tests.
type both struct{ m *testing.M }

func (b both) Run() int { return redistest.Main(b.m) }

func TestMain(m *testing.M) {
	wait.Beside(8) // most wait for servers
	edge.AwayFromMonth(3 * time.Minute)
	os.Exit(pgtest.Main(both{m}))
}

// poolOf returns a pool of connections to an empty database.
func poolOf(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return connect(tb, pgtest.Shared(tb).Database(tb))
}

// pgLedgerOf returns an empty ledger in a schema of its own.
func pgLedgerOf(tb testing.TB) *pgledger.Ledger {
	tb.Helper()
	l := pgledger.New(connect(tb, pgtest.Shared(tb).ConnString("")), pgtest.Name("book"), defaultLevels)
	must.OK(tb, l.Migrate(tb.Context()))
	return l
}

func connect(tb testing.TB, connString string) *pgxpool.Pool {
	tb.Helper()
	pool := must.Get(pgxpool.New(context.Background(), connString))(tb)
	tb.Cleanup(pool.Close)
	return pool
}

// eachLedger runs a test over both ledgers, in parallel with others.
func eachLedger(t *testing.T, f func(t *testing.T, l ledger.Ledger)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { t.Parallel(); f(t, memledger.New(defaultLevels)) })
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); f(t, pgLedgerOf(t)) })
}

// month returns an account of a month of 2026.
func month(limit, key string, m time.Month) ledger.Account {
	return ledger.Account{
		Limit: limit, Key: key,
		Start: time.Date(2026, m, 1, 0, 0, 0, 0, time.UTC).UnixMicro(),
		End:   time.Date(2026, m+1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(),
	}
}

// at returns a position of an account: changes of a generation, some seconds into the period.
func at(a ledger.Account, generation, changes, used int64, seconds int64) ledger.Position {
	now := a.Start + seconds*1e6
	return ledger.Position{Account: a, Date: int32(now / 1e6 / (24 * 3600)), Position: generation<<ledger.GenerationShift | changes, Used: used, At: now, Hard: 100, Included: 100}
}

func mustBegin(t *testing.T, l ledger.Ledger, a ledger.Account, closes int64, positions ...ledger.Position) ledger.Begun {
	t.Helper()
	o, answers := ledger.Opening{Account: a}, make([]ledger.Begun, 1)
	if closes > 0 {
		o.Closes = &ledger.Position{Account: a, Position: closes << ledger.GenerationShift}
	}
	must.OK(t, l.Begin(t.Context(), []ledger.Opening{o}, positions, answers))
	return answers[0]
}

// wantBegun has an account go on in another generation, which must be want.
func wantBegun(t *testing.T, l ledger.Ledger, a ledger.Account, closes int64, want ledger.Begun, positions ...ledger.Position) {
	t.Helper()
	check.Equal(t, "the next generation", mustBegin(t, l, a, closes, positions...), want)
}

func mustFlush(t *testing.T, l ledger.Ledger, positions ...ledger.Position) []ledger.Position {
	t.Helper()
	must.OK(t, l.Flush(t.Context(), positions))
	return positions
}

// usedOf returns what the ledger says that an account has used.
func usedOf(t *testing.T, l ledger.Ledger, a ledger.Account) (used int64) {
	t.Helper()
	q := Query{Limit: a.Limit, Tenant: a.Key, From: micros.Time(a.Start), To: micros.Time(a.End)}
	used = -1
	must.OK(t, l.Usage(t.Context(), q.selection(), func(u ledger.Use) error {
		if used >= 0 {
			t.Errorf("the account is there twice: %+v", u)
		}
		used = u.Used
		return nil
	}))
	return used
}

// wantUsed compares what the ledger says that an account has used.
func wantUsed(t *testing.T, l ledger.Ledger, a ledger.Account, want int64) {
	t.Helper()
	check.Equal(t, "used", usedOf(t, l, a), want)
}

// daysOf returns what the ledger has by day.
func daysOf(t *testing.T, l ledger.Ledger, q Query) []ledger.DayUse {
	t.Helper()
	return must.Get(l.Days(t.Context(), q.selection()))(t)
}
