package billing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota"
)

// accountID names an account of a scenario.
type accountID struct{ limit, tenant int }

// bounds is what the journals say of an account.
type bounds struct {
	known          int64 // granted and charged, less what was given back
	less, more     int64 // of which nobody knows whether it took effect
	missing        int64 // that may be missing, since a process was killed before it had written it
	extra          int64 // that was given back, and may be there nevertheless
	lost, lostBack int64 // the same, after what killed processes had not written was looked for in Redis
}

func (b *bounds) String() string {
	return fmt.Sprintf("known %d, unknown -%d to +%d, not written -%d to +%d, lost -%d to +%d", b.known, b.less, b.more, b.missing, b.extra, b.lost, b.lostBack)
}

// reckon computes the bounds of all accounts.
func (s *scenario) reckon(records []*record) map[accountID]*bounds {
	all := make(map[accountID]*bounds)
	seen := s.seen(records)
	for _, r := range records {
		written := int64(1<<63 - 1)
		if r.killed != 0 {
			written = r.written(r.killed)
		}
		for _, o := range r.operations {
			if o.outcome == refused {
				continue
			}
			for limit := range 2 {
				if o.limits&(1<<limit) == 0 {
					continue
				}
				id := accountID{limit, o.tenant}
				b := all[id]
				if b == nil {
					b = new(bounds)
					all[id] = b
				}
				b.add(o)
				if atRisk := o.end == 0 || o.end >= written; atRisk {
					b.risk(o, &b.missing, &b.extra)
				}
				if s.lostWith(o, id, written, seen) || s.lateRefund(r, o) {
					b.risk(o, &b.lost, &b.lostBack)
				}
			}
		}
	}
	return all
}

func (b *bounds) add(o *operation) {
	switch {
	case o.outcome == unknown && o.kind == refund:
		b.less += o.units
	case o.outcome == unknown:
		b.more += o.units
	case o.kind == refund:
		b.known -= o.units
	default:
		b.known += o.units
	}
}

// risk says that an operation that took effect may not be in the ledger.
func (b *bounds) risk(o *operation, missing, extra *int64) {
	switch {
	case o.outcome == unknown: // already in the bounds
	case o.kind == refund:
		*extra += o.units
	default:
		*missing += o.units
	}
}

// lostWith reports whether an operation may be lost for good: no process that goes on knows it, or
// Redis was set back, and Redis has lost it. written is when its process had last written. How long
// it takes until a set-back is seen depends on when everybody answers again, so what is charged after
// one may be missing, unless strict is set.
func (s *scenario) lostWith(o *operation, id accountID, written int64, seen map[failover]int64) bool {
	for _, l := range s.losses {
		switch {
		case l.since == 0:
			if o.end >= written && o.begin <= l.at {
				return true
			}
		case !s.strict && o.end >= l.since, nearFailover(o, l, seen[failover{id, l.at}]):
			return true
		}
	}
	return false
}

// lateRefund reports whether Redis was emptied between a charge that was not written yet and its
// refund: then another process may have restored the account without the charge, and there may
// have been nothing to give back.
func (s *scenario) lateRefund(r *record, o *operation) bool {
	return o.kind == refund && slices.ContainsFunc(s.losses, func(l loss) bool {
		return o.of.begin <= l.at && o.end >= l.began && o.of.end >= r.written(l.began)
	})
}

// nearFailover reports whether an operation was between the snapshot that Redis went on with, and
// the time at which a process must have seen it: then it can be lost.
func nearFailover(o *operation, l loss, seen int64) bool {
	return o.end >= l.since && o.begin <= max(l.at, seen)
}

// failover is what a failover did to one account.
type failover struct {
	accountID
	at int64
}

// seen returns by when a process must have seen that an account was set back: it was charged
// again, and everybody has flushed twice after that.
func (s *scenario) seen(records []*record) map[failover]int64 {
	all := make(map[failover]int64)
	for _, l := range s.losses {
		if l.since == 0 {
			continue
		}
		for _, r := range records { // when it was charged again
			for _, o := range r.operations {
				for limit := range 2 {
					id := failover{accountID{limit, o.tenant}, l.at}
					if o.outcome == granted && o.limits&(1<<limit) != 0 && o.end >= l.began && (all[id] == 0 || all[id] > o.end) {
						all[id] = o.end
					}
				}
			}
		}
		for id, again := range all {
			if id.at != l.at {
				continue
			}
			for _, r := range records {
				i, _ := slices.BinarySearchFunc(r.flushes, again, func(f flush, at int64) int { return cmp.Compare(f.began, at) })
				if i+1 < len(r.flushes) {
					all[id] = max(all[id], r.flushes[i+1].done)
				}
			}
			all[id] += int64(50 * time.Millisecond)
		}
	}
	return all
}

// difference is an account of which the ledger is wrong.
type difference struct {
	accountID
	ledger int64
	why    string
}

// judge compares the ledger with the journals.
func (s *scenario) judge(t *testing.T, command string) {
	t.Helper()
	records := s.records()
	expected := s.reckon(records)
	s.strict = true
	strict := s.reckon(records)
	pool := connect(t, s.order.PostgreSQL)
	redisStore := redisstore.New(s.rdb)
	book := must.Get(quota.Open(t.Context(), pool, quota.Config{Store: redisStore, FlushEvery: time.Minute, Timeout: patience}))(t)
	t.Cleanup(func() { _ = book.Close(t.Context()) })
	rules := must.Get(rulesOf(book.Store(), limits(s.order.Quota)...))(t)
	before := s.usage(t, book)
	wrong := s.compare(expected, before, func(b *bounds) (int64, int64) {
		return b.known - b.less - b.missing - b.lost, b.known + b.more + b.extra + b.lostBack
	}, "before Redis was asked")
	sum := must.Get(book.Reconcile(t.Context(), true, nil))(t)
	must.OK(t, book.Flush(t.Context()))
	after := s.usage(t, book)
	wrong = append(wrong, s.compare(expected, after, func(b *bounds) (int64, int64) {
		return b.known - b.less - b.lost, b.known + b.more + b.lostBack
	}, "after Redis was asked")...)
	figure(t, "accounts off by more than what was charged until a failover must have been seen", len(s.compare(strict, after, func(b *bounds) (int64, int64) {
		return b.known - b.less - b.lost, b.known + b.more + b.lostBack
	}, "")))
	if again, err := book.Reconcile(t.Context(), true, nil); err != nil {
		t.Error(err)
	} else if again.Repaired > 0 {
		_, err := book.Reconcile(t.Context(), true, func(d quota.Difference) error {
			if d.Cause != quota.CauseForgotten {
				t.Errorf("after it was reconciled twice: %+v", d)
			}
			return nil
		})
		t.Logf("reconciled again: %+v, %v", again, err)
	}
	if len(s.losses) == 0 {
		wrong = append(wrong, s.compareStore(t, redisStore, rules, after)...)
	}
	if !slices.ContainsFunc(s.losses, func(l loss) bool { return l.since != 0 }) {
		s.compareDays(t, pool, book, s.usage(t, book))
	}
	s.report(t, records, expected, after, sum)
	s.explain(t, pool, records, expected, wrong, command)
}

// usage returns what the ledger says of all accounts.
func (s *scenario) usage(t *testing.T, book *quota.Book) map[accountID]int64 {
	t.Helper()
	names := make(map[string]int)
	for n := range s.order.Tenants {
		names[tenant(n)] = n
	}
	all := make(map[accountID]int64)
	for u, err := range book.Usage(t.Context(), quota.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		id := accountID{slices.Index([]string{planName, otherName}, u.Limit), names[u.Tenant]}
		if _, twice := all[id]; twice {
			t.Errorf("%+v is there twice", u)
		}
		all[id] = u.Used
	}
	return all
}

func (s *scenario) compare(expected map[accountID]*bounds, ledger map[accountID]int64, within func(*bounds) (int64, int64), when string) (wrong []difference) {
	for id, b := range expected {
		if low, high := within(b); ledger[id] < low || ledger[id] > high {
			wrong = append(wrong, difference{id, ledger[id], fmt.Sprintf("%s: want from %d to %d: %s", when, low, high, b)})
		}
	}
	for id, used := range ledger {
		if expected[id] == nil && used != 0 {
			wrong = append(wrong, difference{id, used, when + ": nobody was granted anything"})
		}
	}
	return wrong
}

// compareStore compares the ledger with a store that has lost nothing.
func (s *scenario) compareStore(t *testing.T, redisStore store.Store, rules []*store.Rule, ledger map[accountID]int64) (wrong []difference) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience) // without which Redis has 3 seconds
	defer cancel()
	for id, used := range ledger {
		twin := must.Get(rules[id.limit].Ledger())(t)
		var account store.Account
		checks, results := []store.Check{{Key: []byte(tenant(id.tenant)), Rule: twin, Account: &account}}, make([]store.Result, 1)
		must.OK(t, redisStore.Peek(ctx, checks, results))
		if account.Used != used {
			wrong = append(wrong, difference{id, used, fmt.Sprintf("Redis, which has lost nothing, has %d", account.Used)})
		}
	}
	return wrong
}

// compareDays compares the days of accounts with their use.
func (s *scenario) compareDays(t *testing.T, pool *pgxpool.Pool, book *quota.Book, ledger map[accountID]int64) {
	t.Helper()
	days := must.Get(book.Days(t.Context(), quota.Query{}))(t)
	sums := make(map[string]int64)
	for _, d := range days {
		sums[d.Limit+" "+d.Tenant] += d.Used
	}
	for id, used := range ledger {
		name := []string{planName, otherName}[id.limit] + " " + tenant(id.tenant)
		if sums[name] != used {
			t.Errorf("the days of %s add up to %d units, and %d were used\n%s", name, sums[name], used, s.rows(t, pool, id))
			return
		}
	}
}

// report prints figures.
func (s *scenario) report(t *testing.T, records []*record, expected map[accountID]*bounds, ledger map[accountID]int64, sum quota.Reconciliation) {
	t.Helper()
	var grants, unknowns, units, got, bound int64
	for _, r := range records {
		for _, o := range r.operations {
			switch o.outcome {
			case granted:
				grants++
			case unknown:
				unknowns++
			}
		}
	}
	exact := 0
	for id, b := range expected {
		units += b.known
		got += ledger[id]
		bound += b.lost
		if ledger[id] == b.known {
			exact++
		}
	}
	var happened []string
	for what, n := range s.counts {
		happened = append(happened, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(happened)
	figure(t, "operations that took effect", grants)
	figure(t, "operations of which nobody knows", unknowns)
	figure(t, "units in the journals, in the ledger, and that may be lost", fmt.Sprintf("%d, %d, %d", units, got, bound))
	figure(t, "accounts, and those equal to the journals", fmt.Sprintf("%d, %d", len(expected), exact))
	figure(t, "written by Reconcile", sum.Repaired)
	figure(t, "events", strings.Join(happened, ", "))
}

// rows returns what the tables have of an account.
func (s *scenario) rows(t *testing.T, pool *pgxpool.Pool, id accountID) string {
	t.Helper()
	rows := must.Get(pool.Query(t.Context(), `SELECT format('generation %s base %s change %s used %s at %s closed %s', generation, base,
			position & ((1::bigint << 36) - 1), used, to_char(at, 'SS.US'), closed)
		FROM weblimit.generation WHERE limit_name = $1 AND key = $2
		UNION ALL SELECT format('generation %s day %s change %s used %s', generation, day, position & ((1::bigint << 36) - 1), used)
		FROM weblimit.day WHERE limit_name = $1 AND key = $2
		ORDER BY 1`, []string{planName, otherName}[id.limit], tenant(id.tenant)))(t)
	all := must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
	return strings.Join(all, "\n")
}

// explain fails the test with all that is known of an account that is wrong.
func (s *scenario) explain(t *testing.T, pool *pgxpool.Pool, records []*record, expected map[accountID]*bounds, wrong []difference, command string) {
	t.Helper()
	if len(wrong) == 0 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d differences; repeat with: %s\n%s\n", len(wrong), command, strings.Join(s.events, "\n"))
	slices.SortFunc(wrong, func(x, y difference) int { return cmp.Compare(x.tenant, y.tenant) })
	for n, d := range wrong {
		fmt.Fprintf(&b, "%s %s: the ledger has %d: %s\n", []string{planName, otherName}[d.limit], tenant(d.tenant), d.ledger, d.why)
		if n >= 10 {
			continue
		}
	}
	// The whole story of the one with the fewest operations.
	count := make(map[accountID]int)
	for _, r := range records {
		for _, o := range r.operations {
			for limit := range 2 {
				if o.limits&(1<<limit) != 0 {
					count[accountID{limit, o.tenant}]++
				}
			}
		}
	}
	d := slices.MinFunc(wrong, func(x, y difference) int { return cmp.Compare(count[x.accountID], count[y.accountID]) })
	fmt.Fprintf(&b, "all of %s %s:\n", []string{planName, otherName}[d.limit], tenant(d.tenant))
	fmt.Fprintln(&b, s.rows(t, pool, d.accountID))
	var story []*operation
	for _, r := range records {
		for _, o := range r.operations {
			if o.tenant == d.tenant && o.limits&(1<<d.limit) != 0 {
				story = append(story, o)
			}
		}
	}
	slices.SortFunc(story, func(x, y *operation) int { return cmp.Compare(x.begin, y.begin) })
	for _, o := range story[max(0, len(story)-400):] {
		fmt.Fprintln(&b, o)
	}
	t.Error(b.String())
}
