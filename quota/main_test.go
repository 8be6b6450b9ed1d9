package quota

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// both stops the servers of PostgreSQL and Redis after the tests.
type both struct{ m *testing.M }

func (b both) Run() int { return redistest.Main(b.m) }

func TestMain(m *testing.M) {
	edge.AwayFromMonth(3 * time.Minute)
	os.Exit(pgtest.Main(both{m}))
}

// poolOf returns a pool of connections to an empty database.
func poolOf(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return connect(tb, pgtest.Shared(tb).Database(tb))
}

func connect(tb testing.TB, connString string) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(context.Background(), connString)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// eachLedger runs a test over both ledgers.
func eachLedger(t *testing.T, f func(t *testing.T, l ledger)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		f(t, newMemoryLedger(defaultLevels))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		l := newPGLedger(poolOf(t), "weblimit", defaultLevels)
		if err := l.migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(t, l)
	})
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
	answers := make([]begun, 1)
	if err := l.begin(t.Context(), []opening{{account: a, closes: closes}}, positions, answers); err != nil {
		t.Fatal(err)
	}
	return answers[0]
}

func mustFlush(t *testing.T, l ledger, positions ...position) []position {
	t.Helper()
	if err := l.flush(t.Context(), positions); err != nil {
		t.Fatal(err)
	}
	return positions
}

// usedOf returns what the ledger says that an account has used.
func usedOf(t *testing.T, l ledger, a account) (used int64) {
	t.Helper()
	q := Query{Limit: a.limit, Tenant: a.key, From: timeOf(a.start), To: timeOf(a.end)}
	used = -1
	if err := l.usage(t.Context(), q, func(u Usage) error {
		if used >= 0 {
			t.Errorf("the account is there twice: %+v", u)
		}
		used = u.Used
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return used
}
