package redisstore_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

func ledgerOf(t *testing.T, limit core.Limit) *core.Rule {
	t.Helper()
	return must.Get(counting.LedgerOf(mustRule(t, limit)))(t)
}

// restoreAs restores the account of a check as unknown.
func restoreAs(t *testing.T, s *redisstore.Store, c core.Check, used, generation int64) core.Result {
	t.Helper()
	results := make([]core.Result, 1)
	history := storetest.HistoryOf(t, s, c)
	from := []counting.Restoration{{Used: used, Generation: generation, Ends: c.Rule.PeriodEnd(time.Now().UnixMicro()), History: history}}
	must.OK(t, s.Restore(t.Context(), []core.Check{c}, from, results))
	return results[0]
}

// Redis has forgotten an account, and many processes find out at once.
func TestManyProcessesRestoreAnAccountOnce(t *testing.T) {
	t.Parallel()
	const processes, requests, used = 6, 8, 100
	server, prefix := redistest.Start(t), redistest.Prefix(t)
	plan := ledgerOf(t, core.PerBillingMonth(10_000, farDay(), time.UTC).Named("plan"))
	tenant := checkOf("tenant:1", plan, 3)
	var mu sync.Mutex
	won, positions := 0, []int64(nil)
	var all sync.WaitGroup
	for p := range int64(processes) {
		s := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
		for n := range int64(requests) {
			all.Go(func() {
				var account store.Account
				asked := tenant
				asked.Account = &account
				got := take(t, s, asked)[0]
				for tries := int64(0); got.Unknown && tries < 5; tries++ {
					restored := restoreAs(t, s, tenant, used, 1+p*requests+n)
					mu.Lock()
					if restored.Charged {
						won++
					}
					mu.Unlock()
					got = take(t, s, asked)[0]
				}
				mu.Lock()
				defer mu.Unlock()
				if !got.Charged {
					t.Errorf("not charged: %+v", got)
				}
				positions = append(positions, account.Position)
				if change := account.Position & (1<<36 - 1); account.Used != used+3*(change-1) {
					t.Errorf("%d used at change %d, want %d", account.Used, change, used+3*(change-1))
				}
			})
		}
	}
	all.Wait()
	check.Equal(t, "restorations counted", won, 1)
	slices.Sort(positions)
	if len(slices.Compact(positions)) != processes*requests {
		t.Errorf("two charges have one position: %v", positions)
	}
}

// keysApart returns n keys in different slots or shards, as far as a few tries tell.
func keysApart(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("tenant:%d", i))
	}
	return keys
}

// A request has keys in several slots, of which one does not know its account. Nothing stays
// charged in the others, whichever it is, and nothing counts as a denial.
func TestAnUnknownAccountChargesNothingInOtherSlots(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t)
	for name, client := range map[string]redis.UniversalClient{"cluster": redistest.SharedCluster(t).Client(t), "ring": ring} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := ledgerOf(t, core.PerBillingMonth(100, farDay(), time.UTC).Named("plan"))
			hourly := mustRule(t, core.PerHour(100).Named("hourly"))
			login := mustRule(t, core.PerDay(100).Named("login").Penalty(core.Block{After: 2, Within: time.Hour, For: time.Hour}))
			keys := keysApart(5)
			for unknown := range keys {
				for _, shadow := range []bool{false, true} {
					s := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
					var checks []core.Check
					for i, key := range keys {
						rule := []*core.Rule{hourly, login, plan}[i%3]
						if i == unknown {
							rule = plan
						}
						c := checkOf(key, rule, 1)
						c.Shadow = shadow && i == unknown
						checks = append(checks, c)
						if rule == plan && i != unknown {
							restoreAs(t, s, c, 7, 1)
						}
					}
					for range 4 { // more often than it takes for a block
						for i, got := range take(t, s, checks...) {
							switch {
							case i == unknown && (!got.Unknown || got.Allowed):
								t.Fatalf("key %d is unknown: %+v", i, got)
							case got.Charged || got.Blocked || got.Cached:
								t.Fatalf("key %d, while %d is unknown: %+v", i, unknown, got)
							}
						}
					}
					for i := range checks {
						if i == unknown {
							continue
						}
						switch got := take(t, s, checkOf(keys[i], checks[i].Rule, 0))[0]; {
						case checks[i].Rule == plan && got.Remaining != 93:
							t.Errorf("key %d, after %d was unknown: %+v, want 93 remaining", i, unknown, got)
						case checks[i].Rule != plan && got.Remaining != 100:
							t.Errorf("key %d, after %d was unknown: %+v, want 100 remaining", i, unknown, got)
						}
					}
					restoreAs(t, s, checks[unknown], 7, 1)
					for i, got := range take(t, s, checks...) {
						if !got.Charged || checks[i].Rule == plan && got.Remaining != 92 {
							t.Errorf("key %d, with all accounts known: %+v", i, got)
						}
					}
				}
			}
		})
	}
}

// Accounts in several slots are restored in one call. A slot that is out does not keep the others
// from being restored, and its account does not look restored.
func TestAccountsOfSeveralSlotsAreRestoredTogether(t *testing.T) {
	t.Parallel()
	client := redistest.SharedCluster(t).Client(t)
	prefix := redistest.Prefix(t)
	s := redisstore.New(client, redisstore.Config{Prefix: prefix})
	plan := ledgerOf(t, core.PerBillingMonth(100, farDay(), time.UTC).Named("plan"))
	var checks []core.Check
	var from []counting.Restoration
	for i, key := range keysApart(6) {
		c := checkOf(key, plan, 1)
		c.Account = &store.Account{Position: 99} // of an earlier call
		checks = append(checks, c)
		from = append(from, counting.Restoration{Used: int64(i), Generation: int64(i) + 1, Ends: plan.PeriodEnd(time.Now().UnixMicro()), History: storetest.HistoryOf(t, s, c)})
	}
	must.OK(t, client.LPush(t.Context(), prefix+"{"+string(checks[2].Key)+"}", "another application's").Err())
	results := make([]core.Result, len(checks))
	for i := range results {
		results[i].Charged = true // in an earlier call
	}
	if err := s.Restore(t.Context(), checks, from, results); err == nil {
		t.Error("an account that could not be restored is no error")
	}
	for i, got := range results {
		a := checks[i].Account
		if want := i != 2; got.Charged != want || (counting.Generation(a.Position) == int64(i)+1) != want || want && a.Used != int64(i) {
			t.Errorf("account %d: %+v, %+v", i, got, a)
		}
	}
}

// The denial of an unknown account is over as soon as the account is restored. That of an account
// that has nothing left can be repeated without asking Redis.
func TestNoDenialOfAnUnknownAccountIsKept(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cache := redisstore.Config{DenialCache: redisstore.DenialCache{Age: forever, Size: 8}}
	s := redisstore.New(server.Client(t), cache)
	listening(t, s) // a denial that came before is not repeated
	plan, none := ledgerOf(t, core.PerBillingMonth(2, farDay(), time.UTC).Named("plan")), mustRule(t, core.PerHour(1).Named("none"))
	take(t, s, checkOf("k", none, 1))
	var account store.Account
	both := []core.Check{checkOf("k", plan, 1), checkOf("k", none, 1)}
	for range 3 {
		if got := take(t, s, both[0])[0]; got.Cached || !got.Unknown {
			t.Fatalf("unknown: %+v", got)
		}
		if got := take(t, s, both...); got[0].Cached || got[1].Cached || got[1].Allowed {
			t.Fatalf("unknown, and denied by another limit: %+v", got)
		}
	}
	restoreAs(t, s, both[0], 1, 1)
	both[0].Account = &account
	if got := take(t, s, both[0])[0]; !got.Charged || account.Used != 2 {
		t.Fatalf("restored: %+v, %+v", got, account)
	}
	// The restoration is published, since the denials before it have left a notice. Whenever that is heard,
	// a denial that came before is not repeated.
	wait.Until(t, "a denial is repeated", func() bool { return take(t, s, both[0])[0].Cached })
	before := server.Calls(t, "evalsha")
	if got := take(t, s, both[0])[0]; !got.Cached || got.Allowed || account != (store.Account{}) {
		t.Errorf("a denial of a known account: %+v, %+v, want it from the cache, which does not know the account's state", got, account)
	}
	if calls := server.Calls(t, "evalsha") - before; calls != 0 {
		t.Errorf("a cached denial cost Redis %d calls", calls)
	}
}

// Redis is flushed: the next request is not granted as if nothing had been used.
func TestAfterAFlushAnAccountIsUnknown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := redisstore.New(server.Client(t))
	plan := ledgerOf(t, core.PerBillingMonth(2, farDay(), time.UTC).Named("plan"))
	account := checkOf("k", plan, 1)
	restoreAs(t, s, account, 0, 1)
	if got := take(t, s, account)[0]; !got.Charged {
		t.Fatalf("known: %+v", got)
	}
	must.OK(t, server.Client(t).FlushAll(t.Context()).Err())
	if got := take(t, s, account)[0]; got.Allowed || !got.Unknown {
		t.Fatalf("after a flush: %+v", got)
	}
}
