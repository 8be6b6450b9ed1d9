package billing

import (
	"context"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota"
)

// A book on a Redis Cluster: accounts in all slots are charged, one master is emptied, and another is killed with units
// that nobody has written yet, so that its replica takes over. The ledger has what was granted, and so does the
// Cluster after it was reconciled.
func TestABookOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartClusterOf(t, 3, 1)
	redisStore := redisstore.New(cluster.Client(t))
	redisStore.OnEvent(func(core.Event) {}) // no log
	database := pgtest.Shared(t).Database(t)
	config := quota.Config{Store: redisStore, FlushEvery: time.Minute, Timeout: patience}
	s := &spender{T: t, granted: make(map[int]int64)}
	s.book = must.Get(quota.Open(t.Context(), connect(t, database), config))(t)
	t.Cleanup(func() { _ = s.book.Close(context.Background()) })
	s.rules = must.Get(rulesOf(s.book.Store(), limits(1000, 0)...))(t)
	const tenants = 100 // on all masters
	flush := func() { t.Helper(); must.OK(t, s.book.Flush(t.Context())) }
	agree := func(what string) {
		t.Helper()
		must.Get(s.book.Reconcile(t.Context(), true, nil))(t)
		flush()
		must.Get(s.book.Reconcile(t.Context(), true, nil))(t)
		flush()
		for n := range tenants {
			var a store.Account
			checks, results := []store.Check{{Key: []byte(tenant(n)), Rule: s.rules[0], Account: &a}}, make([]store.Result, 1)
			must.OK(t, s.book.Store().Peek(t.Context(), checks, results))
			if a.Used != s.granted[n] {
				t.Errorf("%s: %s: the Cluster has %d units, and %d were granted", what, tenant(n), a.Used, s.granted[n])
				return
			}
		}
		s.want(what)
		sum := must.Get(s.book.Reconcile(t.Context(), false, nil))(t)
		if sum.Accounts != tenants || sum.Left > 0 {
			t.Errorf("%s: %+v", what, sum)
		}
	}
	must.OK(t, s.spend(tenants, 5))
	agree("at first")

	must.OK(t, cluster.Masters()[1].Client(t).FlushAll(t.Context()).Err())
	must.OK(t, s.spend(tenants, 3))
	agree("after a master was emptied")

	must.OK(t, s.spend(tenants, 2))
	victim := cluster.Masters()[0]
	victim.Kill()
	cluster.AwaitFailover(t, 0, victim)
	// The clients follow, and Take says for sure that nothing is charged while there is nobody to ask.
	wait.Until(t, "all slots answer", func() bool {
		for n := range tenants {
			checks, results := []store.Check{{Key: []byte(tenant(n)), Rule: s.rules[0]}}, make([]store.Result, 1)
			if s.book.Store().Peek(t.Context(), checks, results) != nil {
				return false
			}
		}
		return true
	})
	must.OK(t, s.spend(tenants, 1))
	flush()
	agree("after a replica took over")
}
