package quota

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestPositionsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		a := month("plan", "tenant:acme", time.November)
		if got := mustBegin(t, l, a, 0); got != (begun{1, 0}) {
			t.Fatalf("the first generation: %+v", got)
		}
		p := at(a, 1, 5, 40, 60)
		for range 3 {
			mustFlush(t, l, p)
		}
		mustFlush(t, l, at(a, 1, 4, 30, 50)) // of a slower process
		if got := usedOf(t, l, a); got != 40 {
			t.Errorf("used %d, want 40", got)
		}
		mustFlush(t, l, at(a, 1, 6, 38, 70)) // a refund
		if got := usedOf(t, l, a); got != 38 {
			t.Errorf("used %d after a refund, want 38", got)
		}
	})
}

func TestGenerationsAddUp(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustBegin(t, l, a, 0)
		mustFlush(t, l, at(a, 1, 5, 40, 60))
		if got := mustBegin(t, l, a, 0, at(a, 1, 6, 45, 61)); got != (begun{2, 45}) {
			t.Fatalf("the second generation: %+v, want one that begins with 45", got)
		}
		if got := mustBegin(t, l, a, 0); got != (begun{3, 45}) { // by another process, which loses
			t.Fatalf("the third generation: %+v", got)
		}
		mustFlush(t, l, at(a, 2, 3, 50, 70), at(a, 1, 8, 47, 62)) // and one that was late
		if got := usedOf(t, l, a); got != 52 {
			t.Errorf("used %d, want 47 of the first and 5 of the second", got)
		}
		if got := mustBegin(t, l, a, 0); got != (begun{4, 52}) {
			t.Errorf("the fourth generation: %+v", got)
		}
	})
}

func TestClosedGenerationsAreNotWritten(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustBegin(t, l, a, 0)
		mustFlush(t, l, at(a, 1, 10, 40, 60))
		got := mustFlush(t, l, at(a, 1, 7, 35, 65))
		if got[0].outcome != suspect || got[0].known != at(a, 1, 10, 0, 0).position {
			t.Fatalf("a position that is lower and later: outcome %d, the ledger knows %x", got[0].outcome, got[0].known)
		}
		if got := mustBegin(t, l, a, 1); got != (begun{2, 40}) {
			t.Fatalf("the second generation: %+v", got)
		}
		if got := mustFlush(t, l, at(a, 1, 20, 60, 70)); got[0].outcome != closed {
			t.Errorf("of a closed generation: outcome %d", got[0].outcome)
		}
		if got := usedOf(t, l, a); got != 40 {
			t.Errorf("used %d, want 40", got)
		}
	})
}

// A ledger that was restored from a backup learns from the store.
func TestGenerationsThatTheLedgerHasLost(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		a := month("plan", "tenant:acme", time.November)
		mustBegin(t, l, a, 0)
		mustFlush(t, l, at(a, 1, 10, 40, 60))
		mustFlush(t, l, at(a, 5, 3, 70, 80))
		if got := usedOf(t, l, a); got != 70 {
			t.Errorf("used %d, want the 70 of the store", got)
		}
		if got := mustBegin(t, l, a, 0); got != (begun{6, 70}) {
			t.Errorf("the next generation: %+v", got)
		}
		b := month("plan", "tenant:new", time.November)
		mustFlush(t, l, at(b, 9, 2, 30, 80))
		if got := mustBegin(t, l, b, 0); got != (begun{10, 30}) {
			t.Errorf("the next generation of an unknown account: %+v", got)
		}
	})
}

func TestUseByDay(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		a := month("plan", "tenant:acme", time.November)
		const day = 24 * 3600
		mustBegin(t, l, a, 0)
		mustFlush(t, l, at(a, 1, 2, 10, 60), at(a, 1, 4, 15, 2*day), at(a, 1, 3, 12, day-1), at(a, 1, 1, 5, 30))
		mustBegin(t, l, a, 0)
		mustFlush(t, l, at(a, 2, 5, 35, 2*day+9))
		days, err := l.days(t.Context(), Query{Limit: "plan", From: timeOf(a.start), To: timeOf(a.end)})
		if err != nil {
			t.Fatal(err)
		}
		first := int32(a.start / 1e6 / day)
		want := []dayUse{{a, first, 12}, {a, first + 2, 23}}
		if !slices.Equal(days, want) {
			t.Errorf("by day: %v, want %v", days, want)
		}
	})
}

func TestQueries(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
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
			{"one tenant", Query{Tenant: "tenant:a", To: farFuture}, 6},
			{"until November", Query{Limit: "plan", Tenant: "tenant:b", To: november}, 2},
			{"since October's end", Query{From: november, To: farFuture}, 8},
			{"September", Query{From: november.AddDate(0, -2, 0), To: november.AddDate(0, -1, 0)}, 0},
			{"nobody", Query{Tenant: "tenant:c", To: farFuture}, 0},
		} {
			n := 0
			if err := l.usage(t.Context(), tt.q, func(u Usage) error {
				n++
				if u.Used != int64(u.Start.Month()) {
					t.Errorf("%s: %+v", tt.name, u)
				}
				return nil
			}); err != nil || n != tt.want {
				t.Errorf("%s: %d accounts, %v; want %d", tt.name, n, err, tt.want)
			}
		}
	})
}

// all returns the query for all times.
func (q Query) all() Query { q.From, q.To = time.Time{}, farFuture; return q }

func TestOpenAccountsInPages(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		var want []account
		for i := range 25 {
			a := month("plan", fmt.Sprintf("tenant:%02d", i), time.November)
			mustBegin(t, l, a, 0)
			mustFlush(t, l, at(a, 1, 2, 7, 60))
			want = append(want, a)
			mustBegin(t, l, month("plan", a.key, time.October), 0)
		}
		var got []account
		var after account
		for range 10 {
			page, err := l.open(t.Context(), month("", "", time.November).start, after, 7)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page {
				got = append(got, s.account)
				if s.total != 7 || len(s.lives) != 1 || s.lives[0].used != 7 {
					t.Errorf("%+v", s)
				}
				after = s.account
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("accounts %v, want %v", got, want)
		}
	})
}

// Many processes write what they know of many accounts in any order, several times.
func TestManyWritersAgree(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		const accounts, changes = 40, 50
		var all []account
		for i := range accounts {
			all = append(all, month("plan", fmt.Sprintf("tenant:%02d", i), time.November))
		}
		var openings []opening
		for _, a := range all {
			openings = append(openings, opening{account: a})
		}
		if err := l.begin(t.Context(), openings, nil, make([]begun, accounts)); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for writer := range 8 {
			group.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(writer)))
				for range 30 {
					var batch []position
					for _, i := range r.Perm(accounts)[:20] {
						n := 1 + r.Int64N(changes)
						batch = append(batch, at(all[i], 1, n, n*2, n))
					}
					if err := l.flush(t.Context(), batch); err != nil {
						t.Error(err)
						return
					}
				}
				var last []position
				for _, i := range r.Perm(accounts) {
					last = append(last, at(all[i], 1, changes, changes*2, changes))
				}
				if err := l.flush(t.Context(), last); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		for _, a := range all {
			if got := usedOf(t, l, a); got != changes*2 {
				t.Errorf("%s: used %d, want %d", a.key, got, changes*2)
			}
		}
	})
}
