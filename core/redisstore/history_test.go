package redisstore_test

import (
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

// accountAfter returns what a call says of the account of a check, and its result.
func accountAfter(t *testing.T, call func([]core.Check, []core.Result) error, c core.Check, results ...core.Result) (store.Account, core.Result) {
	t.Helper()
	var a store.Account
	c.Account = &a
	if results == nil {
		results = make([]core.Result, 1)
	}
	must.OK(t, call([]core.Check{c}, results))
	return a, results[0]
}

// A replica takes over. It does not know which changes it lacks, so nothing happens to an account before the book has told
// what was used: neither by a restoration that was meant for the old primary, nor by one that has seen another state.
func TestAnAccountIsStaleOnTheNextServer(t *testing.T) {
	t.Parallel()
	primary := redistest.StartTCP(t)
	replica := redistest.StartReplica(t, primary)
	before, after := redisstore.New(primary.Client(t)), redisstore.New(replica.Client(t))
	plan := ledgerOf(t, core.PerBillingMonth(100, farDay(), time.UTC).Named("plan"))
	hourly := mustRule(t, core.PerHour(100).Named("hourly"))
	c := checkOf("k", plan, 3)
	restoreAs(t, before, c, 10, 1)
	known, charged := accountAfter(t, func(c []core.Check, r []core.Result) error { return before.Take(t.Context(), c, r) }, c)
	replica.Received(t, primary)
	replica.Promote(t)

	stale := store.Account{Used: 13, Position: known.Position, History: storetest.HistoryOf(t, after, c), Stale: true}
	if stale.History == 0 || stale.History == known.History {
		t.Fatalf("the history of the primary is %d, and of the replica that was promoted %d", known.History, stale.History)
	}
	calls := map[string]func([]core.Check, []core.Result) error{
		"take":   func(c []core.Check, r []core.Result) error { return after.Take(t.Context(), c, r) },
		"peek":   func(c []core.Check, r []core.Result) error { return after.Peek(t.Context(), c, r) },
		"charge": func(c []core.Check, r []core.Result) error { return after.Charge(t.Context(), c, r) },
	}
	for what, call := range calls {
		if got, result := accountAfter(t, call, c); got != stale || !result.Unknown || result.Charged || result.Remaining != 0 {
			t.Errorf("%s: %+v, %+v, want %+v", what, result, got, stale)
		}
	}
	refund := func(c []core.Check, r []core.Result) error { return after.Refund(t.Context(), c, r) }
	if got, result := accountAfter(t, refund, c, charged); got != stale || !result.Unknown {
		t.Errorf("refund: %+v, %+v", result, got)
	}
	if got := take(t, after, c, checkOf("k", hourly, 1)); got[1].Charged || got[1].Remaining != 100 {
		t.Errorf("beside a stale account: %+v", got[1])
	}

	restore := func(from counting.Restoration, want bool) {
		t.Helper()
		from.Ends = plan.PeriodEnd(time.Now().UnixMicro())
		_, got := accountAfter(t, func(c []core.Check, r []core.Result) error {
			return after.Restore(t.Context(), c, []counting.Restoration{from}, r)
		}, c)
		if got.Charged != want {
			t.Errorf("%+v: %+v", from, got)
		}
	}
	restore(counting.Restoration{Used: 20, Generation: 2, History: known.History}, false)
	restore(counting.Restoration{Used: 20, Generation: 2, Expect: 1, Position: known.Position, History: known.History}, false)
	restore(counting.Restoration{Used: 20, Generation: 2, History: stale.History}, false)
	restore(counting.Restoration{Used: 20, Generation: 2, Expect: 1, History: stale.History}, false)
	restore(counting.Restoration{Used: 20, Generation: 2, Expect: 1, Position: known.Position - 1, History: stale.History}, false)
	restore(counting.Restoration{Used: 12, Generation: 2, Expect: 1, Position: known.Position, History: stale.History}, true)
	if got, result := accountAfter(t, calls["take"], c); !result.Charged || got.Used != 15 || got.Stale {
		t.Errorf("restored: %+v, %+v", result, got)
	}
	check.Equal(t, "units on the old primary", usedBy(t, before, c), 13)
}

func usedBy(t *testing.T, s *redisstore.Store, c core.Check) int64 {
	t.Helper()
	a, _ := accountAfter(t, func(c []core.Check, r []core.Result) error { return s.Peek(t.Context(), c, r) }, c)
	return a.Used
}

// Where the store's user may not ask for it there is no history: accounts are known, and never stale.
func TestWithoutPermissionNoAccountIsStale(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.User(t, "limits", "~*", "+@all", "-info")
	s := redisstore.New(server.ClientAs(t, "limits"))
	c := checkOf("k", ledgerOf(t, core.PerBillingMonth(100, farDay(), time.UTC).Named("plan")), 3)
	restoreAs(t, s, c, 10, 1)
	take := func(c []core.Check, r []core.Result) error { return s.Take(t.Context(), c, r) }
	if got, result := accountAfter(t, take, c); !result.Charged || got.History != 0 || got.Used != 13 {
		t.Errorf("%+v, %+v", result, got)
	}
	// Once it may, the account is stale until it was restored.
	all := redisstore.New(server.Client(t))
	take = func(c []core.Check, r []core.Result) error { return all.Take(t.Context(), c, r) }
	if got, result := accountAfter(t, take, c); !result.Unknown || !got.Stale || got.Used != 13 {
		t.Errorf("%+v, %+v", result, got)
	}
}

// The record of a ledger had no history once. It is read as one that is stale.
func TestARecordWithoutAHistory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := redisstore.New(client)
	c := checkOf("k", ledgerOf(t, core.PerBillingMonth(100, farDay(), time.UTC).Named("plan")), 3)
	restoreAs(t, s, c, 10, 1)
	key := must.Get(client.Keys(t.Context(), "*").Result())(t)[0]
	value := []byte(must.Get(client.Get(t.Context(), key).Result())(t))
	value = value[:len(value)-7] // the record is the last
	const sizes = 1 + 8
	value[sizes] = value[sizes]&^15 | 14
	must.OK(t, client.Set(t.Context(), key, value, time.Hour).Err())
	take := func(c []core.Check, r []core.Result) error { return s.Take(t.Context(), c, r) }
	if got, result := accountAfter(t, take, c); !result.Unknown || !got.Stale || got.Used != 10 || counting.Generation(got.Position) != 1 {
		t.Errorf("%+v, %+v", result, got)
	}
}
