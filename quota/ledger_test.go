package quota

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

func TestPositionsAreWrittenOnce(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		a := month("plan", "tenant:acme", time.November)
		p := at(a, 1, 5, 40, 60)
		for range 3 {
			mustFlush(t, l, p)
		}
		mustFlush(t, l, at(a, 1, 4, 30, 50)) // of a slower process
		wantUsed(t, l, a, 40)
		mustFlush(t, l, at(a, 1, 6, 38, 70)) // a refund
		wantUsed(t, l, a, 38)
	})
}

// A store begins the first generation of an account by itself, with nothing used. If it loses that before a
// process has written it, the ledger begins another one, and both count.
func TestStoresBeginTheFirstGeneration(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		a := month("plan", "tenant:acme", time.November)
		wantBegun(t, l, a, 0, ledger.Begun{Generation: 2, Total: 0})
		mustFlush(t, l, at(a, 2, 3, 7, 60))
		mustFlush(t, l, at(a, 1, 5, 40, 50), at(month("plan", "tenant:b", time.November), 1, 1, 3, 50))
		wantUsed(t, l, a, 47)
		wantBegun(t, l, a, 0, ledger.Begun{Generation: 3, Total: 47})
		b := month("plan", "tenant:b", time.November)
		wantBegun(t, l, b, 0, ledger.Begun{Generation: 2, Total: 3})
		all := must.Get(l.Open(t.Context(), a.Start, ledger.Account{}, 10))(t)
		if len(all) != 2 || all[0].Total != 47 || all[1].Total != 3 || len(all[1].Lives) != 2 {
			t.Errorf("%+v", all)
		}
	})
}

func TestGenerationsAddUp(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustFlush(t, l, at(a, 1, 5, 40, 60))
		wantBegun(t, l, a, 0, ledger.Begun{Generation: 2, Total: 45}, at(a, 1, 6, 45, 61))
		wantBegun(t, l, a, 0, ledger.Begun{Generation: 3, Total: 45}) // by another process, which loses
		mustFlush(t, l, at(a, 2, 3, 50, 70), at(a, 1, 8, 47, 62))     // and one that was late
		wantUsed(t, l, a, 52)
		wantBegun(t, l, a, 0, ledger.Begun{Generation: 4, Total: 52})
	})
}

func TestClosedGenerationsAreNotWritten(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustFlush(t, l, at(a, 1, 10, 40, 60))
		got := mustFlush(t, l, at(a, 1, 7, 35, 65))
		if got[0].Outcome != ledger.Suspect || got[0].Known != at(a, 1, 10, 0, 0).Position {
			t.Fatalf("a position that is lower and later: outcome %d, the ledger knows %x", got[0].Outcome, got[0].Known)
		}
		wantBegun(t, l, a, 1, ledger.Begun{Generation: 2, Total: 40})
		check.Equal(t, "of a closed generation: outcome", mustFlush(t, l, at(a, 1, 20, 60, 70))[0].Outcome, ledger.Closed)
		wantUsed(t, l, a, 40)
	})
}

// A ledger that was restored from a backup learns from the store.
func TestGenerationsThatTheLedgerHasLost(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustFlush(t, l, at(a, 1, 10, 40, 60))
		mustFlush(t, l, at(a, 5, 3, 70, 80))
		wantUsed(t, l, a, 70)
		wantBegun(t, l, a, 0, ledger.Begun{Generation: 6, Total: 70})
		b := month("plan", "tenant:new", time.November)
		mustFlush(t, l, at(b, 9, 2, 30, 80))
		wantBegun(t, l, b, 0, ledger.Begun{Generation: 10, Total: 30})
	})
}

func TestUseByDay(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		a := month("plan", "tenant:acme", time.November)
		const day = 24 * 3600
		mustFlush(t, l, at(a, 1, 2, 10, 60), at(a, 1, 4, 15, 2*day), at(a, 1, 3, 12, day-1), at(a, 1, 1, 5, 30))
		mustBegin(t, l, a, 0)
		mustFlush(t, l, at(a, 2, 5, 35, 2*day+9))
		days := daysOf(t, l, Query{Limit: "plan", From: micros.Time(a.Start), To: micros.Time(a.End)})
		first := int32(a.Start / 1e6 / day)
		want := []ledger.DayUse{{Account: a, Date: first, Used: 12}, {Account: a, Date: first + 2, Used: 23}}
		check.Slices(t, "by day", days, want)
	})
}

func TestQueries(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		for _, limit := range []string{"plan", "other"} {
			for _, key := range []string{"tenant:a", "tenant:b", `\x00ff`, "tenant:ü"} {
				for _, m := range []time.Month{time.August, time.October, time.November} {
					a := month(limit, key, m)
					mustBegin(t, l, a, 0)
					mustFlush(t, l, at(a, 1, 2, int64(m), 60))
				}
			}
		}
		november := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
		for _, tt := range []struct {
			name string
			q    Query
			want int
		}{
			{"everything", Query{}.during(november).all(), 24},
			{"one limit now", Query{Limit: "plan", From: november, To: november.Add(time.Microsecond)}, 4},
			{"one tenant", Query{Tenant: "tenant:a", To: micros.FarFuture}, 6},
			{"until November", Query{Limit: "plan", Tenant: "tenant:b", To: november}, 2},
			{"since October's end", Query{From: november, To: micros.FarFuture}, 8},
			{"September", Query{From: november.AddDate(0, -2, 0), To: november.AddDate(0, -1, 0)}, 0},
			{"nobody", Query{Tenant: "tenant:c", To: micros.FarFuture}, 0},
		} {
			n := 0
			if err := l.Usage(t.Context(), tt.q.selection(), func(u ledger.Use) error {
				n++
				check.Equal(t, tt.name+": used", u.Used, int64(micros.Time(u.Start).Month()))
				return nil
			}); err != nil || n != tt.want {
				t.Errorf("%s: %d accounts, %v; want %d", tt.name, n, err, tt.want)
			}
		}
	})
}

// all returns the query for all times.
func (q Query) all() Query { q.From, q.To = time.Time{}, micros.FarFuture; return q }

func TestOpenAccountsInPages(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		var want []ledger.Account
		for i := range 25 {
			a := month("plan", fmt.Sprintf("tenant:%02d", i), time.November)
			mustFlush(t, l, at(a, 1, 2, 7, 60))
			want = append(want, a)
			mustBegin(t, l, month("plan", a.Key, time.October), 0)
		}
		var got []ledger.Account
		var after ledger.Account
		for range 10 {
			for _, s := range must.Get(l.Open(t.Context(), month("", "", time.November).Start, after, 7))(t) {
				got = append(got, s.Account)
				if s.Total != 7 || len(s.Lives) != 1 || s.Lives[0].Used != 7 {
					t.Errorf("%+v", s)
				}
				after = s.Account
			}
		}
		check.Slices(t, "accounts", got, want)
	})
}

// Many processes write what they know of many accounts in any order, several times.
func TestManyWritersAgree(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		const accounts, changes = 40, 50
		var all []ledger.Account
		for i := range accounts {
			all = append(all, month("plan", fmt.Sprintf("tenant:%02d", i), time.November))
		}
		var group sync.WaitGroup
		for writer := range 8 {
			group.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(writer)))
				for range 30 {
					var batch []ledger.Position
					for _, i := range r.Perm(accounts)[:20] {
						n := 1 + r.Int64N(changes)
						batch = append(batch, at(all[i], 1, n, n*2, n))
					}
					check.OK(t, l.Flush(t.Context(), batch))
				}
				var last []ledger.Position
				for _, i := range r.Perm(accounts) {
					last = append(last, at(all[i], 1, changes, changes*2, changes))
				}
				check.OK(t, l.Flush(t.Context(), last))
			})
		}
		group.Wait()
		for _, a := range all {
			wantUsed(t, l, a, changes*2)
		}
	})
}
