package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
)

// A row that a call reads beside those that it writes stays as it is until these are written: the call
// waits for whoever is about to change it. Who writes a penalty waits for whoever reads its bucket,
// too, since calls that find no penalty rely on that.
func TestWhatIsReadBesideWhatIsWrittenIsHeld(t *testing.T) {
	t.Parallel()
	pool, config := shared(t, "pool_max_conns=8")
	block := store.Block{After: 1, Within: time.Hour, For: time.Hour}
	plan, login := mustRule(t, core.PerHour(10).Named("plan")), mustRule(t, core.PerHour(10).Named("login").Penalty(block))
	for name, c := range map[string]struct {
		lock  string // of the row of plan or login, by another transaction
		rule  *core.Rule
		call  func(ctx context.Context, s *pgstore.Store) error
		waits bool
	}{
		"charges one limit, peeks another that is about to change": {"FOR UPDATE", plan, func(ctx context.Context, s *pgstore.Store) error {
			return s.Take(ctx, []core.Check{checkOf("k", login, 1), checkOf("k", plan, 0)}, make([]core.Result, 2))
		}, true},
		"charges one limit, peeks another that others read": {"FOR SHARE", plan, func(ctx context.Context, s *pgstore.Store) error {
			return s.Take(ctx, []core.Check{checkOf("k", login, 1), checkOf("k", plan, 0)}, make([]core.Result, 2))
		}, false},
		"blocks a key whose bucket others read": {"FOR SHARE", login, func(ctx context.Context, s *pgstore.Store) error {
			return s.Block(ctx, []core.Check{checkOf("k", login, 1)}, time.Hour)
		}, true},
		"peeks both": {"FOR UPDATE", plan, func(ctx context.Context, s *pgstore.Store) error {
			return s.Peek(ctx, []core.Check{checkOf("k", login, 1), checkOf("k", plan, 1)}, make([]core.Result, 2))
		}, false},
	} {
		s, waiting := pgstore.New(pool, config), config
		if c.waits {
			waiting.Timeout = 200 * time.Millisecond
		}
		take(t, s, checkOf("k", plan, 1), checkOf("k", login, 1))
		tx := must.Get(pool.Begin(t.Context()))(t)
		must.Get(tx.Exec(t.Context(), "SELECT FROM "+config.Schema+".pgstore_record WHERE id = $1 "+c.lock, pgstore.BucketID(c.rule, "k")))(t)
		if err := c.call(t.Context(), pgstore.New(pool, waiting)); (err != nil) != c.waits {
			t.Errorf("%s: %v; want it to wait: %v", name, err, c.waits)
		}
		must.OK(t, tx.Rollback(t.Context()))
		must.OK(t, s.Unblock(t.Context(), []core.Check{checkOf("k", login, 1)}))
	}
}
