package billing

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota"
)

// accountID names an account of a scenario.
type accountID struct {
	limit, tenant int
	ends          int64 // when its period ends; microseconds since the epoch
}

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
				for _, ends := range s.endsOf(o, limit) {
					id := accountID{limit, o.tenant, ends}
					b := all[id]
					if b == nil {
						b = new(bounds)
						all[id] = b
					}
					b.add(o)
					if atRisk := o.end == 0 || o.end >= written; atRisk {
						b.risk(o, &b.missing, &b.extra)
					}
					if s.lostWith(o, written) || s.lateRefund(r, o) {
						b.risk(o, &b.lost, &b.lostBack)
					}
				}
			}
		}
	}
	return all
}

// endsOf returns when the period ends that an operation counts in: any, if nobody knows.
func (s *scenario) endsOf(o *operation, limit int) []int64 {
	if o.outcome == granted {
		return []int64{o.told(limit).ends}
	}
	return s.periods[limit]
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

// lostWith reports whether an operation may be lost for good: Redis has lost it, since it was emptied or
// went on with an older state, and no process that goes on knows it. written is when its process had last
// written, before it was killed.
func (s *scenario) lostWith(o *operation, written int64) bool {
	return slices.ContainsFunc(s.losses, func(l loss) bool {
		return o.begin <= l.at && (o.end == 0 || o.end >= max(written, l.since))
	})
}

// lateRefund reports whether Redis was emptied between a charge that was not written yet and its
// refund: then another process may have restored the account without the charge, and there may
// have been nothing to give back.
func (s *scenario) lateRefund(r *record, o *operation) bool {
	return o.kind == refund && slices.ContainsFunc(s.losses, func(l loss) bool {
		return o.of.begin <= l.at && o.end >= l.began && o.of.end >= r.written(l.began)
	})
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
	pool := connect(t, s.order.PostgreSQL)
	redisStore := redisstore.New(s.rdb)
	redisStore.OnEvent(func(core.Event) {}) // no log
	exports := &journal{file: must.Get(os.OpenFile(filepath.Join(s.dir, "judge"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(t)}
	book := must.Get(quota.Open(t.Context(), pool, quota.Config{Store: redisStore, FlushEvery: time.Minute, Timeout: patience, Exports: exportsTo(exports)}))(t)
	t.Cleanup(func() { _ = book.Close(context.Background()) })
	rules := must.Get(rulesOf(book.Store(), limits(s.order.Quota, s.order.DayEnds)...))(t)
	s.findPeriods(records, rules)
	expected := s.reckon(records)
	before := s.usage(t, book)
	wrong := s.compare(expected, before, func(b *bounds) (int64, int64) {
		return b.known - b.less - b.missing - b.lost, b.known + b.more + b.extra + b.lostBack
	}, "before Redis was asked")
	sum := must.Get(book.Reconcile(t.Context(), true, nil))(t)
	must.OK(t, book.Flush(t.Context()))
	within := func(b *bounds) (int64, int64) { return b.known - b.less - b.lost, b.known + b.more + b.lostBack }
	wrong = append(wrong, s.compareStore(t, book, rules, s.usage(t, book))...) // which restores what Redis has forgotten
	must.OK(t, book.Flush(t.Context()))
	after := s.usage(t, book)
	wrong = append(wrong, s.compare(expected, after, within, "after Redis was asked")...)
	if n := len(s.compare(expected, nil, within, "")); n < len(expected)/10 {
		t.Errorf("an empty ledger would be right about all but %d of %d accounts: this proves little", n, len(expected))
	}
	if again := must.Get(book.Reconcile(t.Context(), false, func(d quota.Difference) error {
		t.Errorf("after it was reconciled: %+v", d)
		return nil
	}))(t); again.Left+again.Repaired > 0 {
		t.Errorf("reconciled again: %+v", again)
	}
	s.compareDays(t, pool, book, after)
	wrong = append(wrong, s.compareStatements(t, book, after)...)
	wrong = append(wrong, s.compareExports(t, after)...)
	s.report(t, records, expected, after, sum)
	s.explain(t, pool, records, expected, wrong, command)
}

// findPeriods sets the periods of the limits: those in which something was counted, and the present one.
func (s *scenario) findPeriods(records []*record, rules []*store.Rule) {
	for limit := range s.periods {
		_, now, _ := rules[limit].Period(time.Now().UnixMicro())
		s.periods[limit] = []int64{now}
		for _, r := range records {
			for _, o := range r.operations {
				if o.outcome != granted || o.limits&(1<<limit) == 0 {
					continue
				}
				if ends := o.told(limit).ends; !slices.Contains(s.periods[limit], ends) {
					s.periods[limit] = append(s.periods[limit], ends)
				}
			}
		}
	}
}

// everything selects the accounts of all periods around now.
func everything() quota.Query {
	return quota.Query{From: time.Now().AddDate(0, 0, -40), To: time.Now().AddDate(0, 0, 40)}
}

// usage returns what the ledger says of all accounts.
func (s *scenario) usage(t *testing.T, book *quota.Book) map[accountID]int64 {
	t.Helper()
	names := make(map[string]int)
	for n := range s.order.Tenants {
		names[tenant(n)] = n
	}
	all := make(map[accountID]int64)
	for u, err := range book.Usage(t.Context(), everything()) {
		if err != nil {
			t.Fatal(err)
		}
		id := accountID{slices.Index([]string{planName, otherName}, u.Limit), names[u.Tenant], u.End.UnixMicro()}
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

// compareStore compares the ledger with what the book's store says of the accounts that Redis has.
func (s *scenario) compareStore(t *testing.T, book *quota.Book, rules []*store.Rule, ledger map[accountID]int64) (wrong []difference) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience) // without which Redis has 3 seconds
	defer cancel()
	for id, used := range ledger {
		var account store.Account
		checks, results := []store.Check{{Key: []byte(tenant(id.tenant)), Rule: rules[id.limit], Account: &account}}, make([]store.Result, 1)
		must.OK(t, book.Store().Peek(ctx, checks, results))
		if counting.Ends(&results[0]) == id.ends && account.Used != used {
			wrong = append(wrong, difference{id, used, fmt.Sprintf("Redis has %d after all was reconciled", account.Used)})
		}
	}
	return wrong
}

// compareDays compares the days of accounts with their use. All days lie in their period.
func (s *scenario) compareDays(t *testing.T, pool *pgxpool.Pool, book *quota.Book, ledger map[accountID]int64) {
	t.Helper()
	days := must.Get(book.Days(t.Context(), everything()))(t)
	sums := make(map[accountID]int64)
	zones := limits(1, s.order.DayEnds)
	for _, d := range days {
		limit := slices.Index([]string{planName, otherName}, d.Limit)
		n, _ := strconv.Atoi(strings.TrimPrefix(d.Tenant, "tenant:"))
		sums[accountID{limit, n, d.End.UnixMicro()}] += d.Used
		zone := must.Get(zones[limit].Rule())(t).Calendar.Location
		if day := d.Day.Format(time.DateOnly); day < d.Start.In(zone).Format(time.DateOnly) || day > d.End.Add(-1).In(zone).Format(time.DateOnly) {
			t.Errorf("a day outside of its period: %+v", d)
			return
		}
	}
	for id, used := range ledger {
		if sums[id] != used {
			t.Errorf("the days of %+v add up to %d units, and %d were used\n%s", id, sums[id], used, s.rows(t, pool, id))
			return
		}
	}
}

// compareExports waits until the receiver has what the ledger has. An increment that it got again is
// the same, and counts once.
func (s *scenario) compareExports(t *testing.T, ledger map[accountID]int64) (wrong []difference) {
	t.Helper()
	for deadline := time.Now().Add(patience / 2); ; time.Sleep(50 * time.Millisecond) { // a process that was killed in a pass holds up others for half a minute
		all := s.records()
		judge := must.Get(readJournal("judge", filepath.Join(s.dir, "judge")))(t)
		got, known := make(map[accountID]int64), make(map[string]exported)
		for _, r := range append(all, judge) {
			for _, x := range r.exported {
				if before, again := known[x.id]; again && before != x {
					t.Fatalf("two increments of one id: %+v, %+v", before, x)
				} else if again {
					continue
				}
				known[x.id] = x
				limit := slices.Index([]string{planName, otherName}, x.limit)
				n, _ := strconv.Atoi(strings.TrimPrefix(x.tenant, "tenant:"))
				got[accountID{limit, n, s.endOf(t, limit, x.start)}] += x.value
			}
		}
		wrong = nil
		for id, used := range ledger {
			if got[id] != used {
				wrong = append(wrong, difference{id, used, fmt.Sprintf("the receiver of exports has %d", got[id])})
			}
		}
		if len(wrong) == 0 || time.Now().After(deadline) {
			return wrong
		}
	}
}

// endOf returns the end of the period of a limit that begins at a time.
func (s *scenario) endOf(t *testing.T, limit int, start int64) int64 {
	rule := must.Get(limits(1, s.order.DayEnds)[limit].Rule())(t)
	_, end, _ := rule.Period(start)
	return end
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
	fmt.Fprintf(&b, "%d differences; repeat with: %s\n", len(wrong), command)
	slices.SortFunc(wrong, func(x, y difference) int { return cmp.Compare(x.tenant, y.tenant) })
	for _, d := range wrong[:min(len(wrong), 10)] {
		fmt.Fprintf(&b, "%s %s: the ledger has %d: %s\n", []string{planName, otherName}[d.limit], tenant(d.tenant), d.ledger, d.why)
	}
	fmt.Fprintln(&b, strings.Join(s.events, "\n"))
	// The whole story of the one with the fewest operations.
	count := make(map[accountID]int)
	for _, r := range records {
		for _, o := range r.operations {
			for limit := range 2 {
				if o.limits&(1<<limit) != 0 {
					for _, ends := range s.endsOf(o, limit) {
						count[accountID{limit, o.tenant, ends}]++
					}
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
