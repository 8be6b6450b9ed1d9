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
func pgLedgerOf(tb testing.TB) *pgLedger {
	tb.Helper()
	l := newPGLedger(connect(tb, pgtest.Shared(tb).ConnString("")), pgtest.Name("book"), defaultLevels)
	must.OK(tb, l.migrate(tb.Context()))
	return l
}

func connect(tb testing.TB, connString string) *pgxpool.Pool {
	tb.Helper()
	pool := must.Get(pgxpool.New(context.Background(), connString))(tb)
	tb.Cleanup(pool.Close)
	return pool
}

// eachLedger runs a test over both ledgers, in parallel with others.
func eachLedger(t *testing.T, f func(t *testing.T, l ledger)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { t.Parallel(); f(t, newMemoryLedger(defaultLevels)) })
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); f(t, pgLedgerOf(t)) })
}

// month returns an account of a month of 2026.
func month(limit, key string, m time.Month) account {
	return account{
		limit: limit, key: key,
		start: time.Date(2026, m, 1, 0, 0, 0, 0, time.UTC).UnixMicro(),
		end:   time.Date(2026, m+1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(),
	}
}

// at returns a position of an account: changes of a generation, some seconds into the period.
func at(a account, generation, changes, used int64, seconds int64) position {
	now := a.start + seconds*1e6
	return position{account: a, date: int32(now / 1e6 / (24 * 3600)), position: generation<<generationShift | changes, used: used, at: now, hard: 100, included: 100}
}

func mustBegin(t *testing.T, l ledger, a account, closes int64, positions ...position) begun {
	t.Helper()
	o, answers := opening{account: a}, make([]begun, 1)
	if closes > 0 {
		o.closes = &position{account: a, position: closes << generationShift}
	}
	must.OK(t, l.begin(t.Context(), []opening{o}, positions, answers))
	return answers[0]
}

// wantBegun has an account go on in another generation, which must be want.
func wantBegun(t *testing.T, l ledger, a account, closes int64, want begun, positions ...position) {
	t.Helper()
	check.Equal(t, "the next generation", mustBegin(t, l, a, closes, positions...), want)
}

func mustFlush(t *testing.T, l ledger, positions ...position) []position {
	t.Helper()
	must.OK(t, l.flush(t.Context(), positions))
	return positions
}

// usedOf returns what the ledger says that an account has used.
func usedOf(t *testing.T, l ledger, a account) (used int64) {
	t.Helper()
	q := Query{Limit: a.limit, Tenant: a.key, From: timeOf(a.start), To: timeOf(a.end)}
	used = -1
	must.OK(t, l.usage(t.Context(), q.selection(), func(u use) error {
		if used >= 0 {
			t.Errorf("the account is there twice: %+v", u)
		}
		used = u.used
		return nil
	}))
	return used
}

// wantUsed compares what the ledger says that an account has used.
func wantUsed(t *testing.T, l ledger, a account, want int64) {
	t.Helper()
	check.Equal(t, "used", usedOf(t, l, a), want)
}

// daysOf returns what the ledger has by day.
func daysOf(t *testing.T, l ledger, q Query) []dayUse {
	t.Helper()
	return must.Get(l.days(t.Context(), q.selection()))(t)
}
