package billing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota"
)

type tenantKey struct{}

type answerKey struct{}

// answer is the response to a request, of which only the status is kept, and the decision.
type answer struct {
	header http.Header
	code   int
	err    error // the decision's
	ends   int64 // when the account's period ends
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
func (a *answer) WriteHeader(code int)        { a.code = code }

// watched sees the decisions.
type watched struct {
	core.NopObserver
	failed atomic.Bool // Redis has not answered a call
}

// Decided implements [core.Observer].
func (*watched) Decided(ctx context.Context, o *core.Observation) {
	a := ctx.Value(answerKey{}).(*answer)
	a.err = o.Decision.Err
	if results := o.Decision.Results(); len(results) > 0 {
		a.ends = counting.Ends(&results[0].Result)
	}
}

// StoreEvent implements [core.Observer].
func (w *watched) StoreEvent(e core.Event) {
	if e.Class != "" && e.Class != quota.ClassLedgerLate {
		w.failed.Store(true)
	}
}

// answers are those to the requests of a while.
type answers struct {
	codes  map[int]int
	took   []time.Duration // in order, each from when the request was due
	lasted time.Duration
}

func (a *answers) p99() time.Duration {
	if len(a.took) == 0 {
		return 0
	}
	return a.took[len(a.took)*99/100]
}

func (a *answers) String() string {
	if len(a.took) == 0 {
		return "no requests"
	}
	n := len(a.took)
	return fmt.Sprintf("%d requests in %v, %.0f per second, by status %v, p50 %v, p99 %v, p99.9 %v",
		n, a.lasted.Round(time.Millisecond), float64(n)/a.lasted.Seconds(), a.codes, a.took[n/2], a.p99(), a.took[n*999/1000])
}

// callers is how many requests can be under way.
const callers = 1024

// load sends requests at the rate, of the tenants and to the processes that next returns, until it returns a tenant below 0. Times
// are from when a request was due, so that none is forgotten that had to wait for others.
func (m *month) load(next func(n int64) (tenant, process int)) *answers {
	all := &answers{codes: make(map[int]int)}
	began := time.Now()
	var count atomic.Int64
	var mu sync.Mutex
	var working sync.WaitGroup
	for range callers {
		working.Go(func() {
			own := answers{codes: make(map[int]int)}
			for {
				n := count.Add(1) - 1
				due := began.Add(time.Duration(float64(n) / *monthRate * float64(time.Second)))
				time.Sleep(time.Until(due)) // a request comes when it is due
				i, process := next(n)
				if i < 0 {
					break
				}
				own.codes[m.send(i, process)]++
				own.took = append(own.took, time.Since(due))
			}
			mu.Lock()
			defer mu.Unlock()
			all.took = append(all.took, own.took...)
			for code, n := range own.codes {
				all.codes[code] += n
			}
		})
	}
	working.Wait()
	all.lasted = time.Since(began)
	slices.Sort(all.took)
	return all
}

// send sends a request of a tenant to a process, and returns the status.
func (m *month) send(i, process int) int {
	a := &answer{header: make(http.Header), code: http.StatusOK}
	ctx := context.WithValue(context.WithValue(context.Background(), tenantKey{}, fmt.Sprint(i)), answerKey{}, a)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		panic(err)
	}
	began := time.Now()
	m.handlers[process].ServeHTTP(a, r)
	m.tallies[i].add(m, process, began, a)
	return a.code
}

// tally is what a tenant was granted.
type tally struct {
	mu sync.Mutex

	// Guarded by mu:
	billed [2]int64         // units by period, before the month begins and after: Redis has charged them
	alone  [processes]alone // of each process
	told   [2]int64         // units that a process has granted by itself and told Redis afterwards, by period
	either int64            // units that may be billed, in either period
}

// alone are units that a process has granted by itself, and not told Redis.
type alone struct {
	units int64
	first time.Time // when the first was granted
	last  time.Time
}

// add adds a decision by a process.
func (t *tally) add(m *month, process int, began time.Time, a *answer) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	own := &t.alone[process]
	granted := a.code == http.StatusOK
	if a.err != nil {
		var failed *store.Error
		if !errors.As(a.err, &failed) || failed.Class != quota.ClassLedgerLate && failed.Class != quota.ClassLedger {
			t.either++ // nobody knows whether Redis has charged it
		}
		if granted {
			if own.units++; own.units == 1 {
				own.first = now
			}
			own.last = now
		}
		return
	}
	period := 0
	if a.ends > m.begins.UnixMicro() {
		period = 1
	}
	if granted {
		t.billed[period]++
	}
	if own.units == 0 || !began.After(own.last) {
		return
	}
	// This decision has told Redis, if what was granted is of the same period.
	if within := own.first.After(m.begins) || now.Before(m.begins); within && !m.failed.Load() {
		t.told[period] += own.units
	} else {
		t.either += own.units
	}
	*own = alone{}
}

// compare compares the ledger with what was granted: to the unit, but for what nobody can know.
func (m *month) compare() {
	t := m.t
	for _, b := range m.books {
		must.OK(t, b.Close(context.Background()))
	}
	used := make(map[string][2]int64)
	for u, err := range m.books[0].Usage(t.Context(), quota.Query{From: m.begins.AddDate(0, -2, 0), To: m.begins.AddDate(0, 2, 0)}) {
		must.OK(t, err)
		n := used[u.Tenant]
		if u.Start.Before(m.begins) {
			n[0] += u.Used
		} else {
			n[1] += u.Used
		}
		used[u.Tenant] = n
	}
	asked := make(map[string]bool) // tenants of whom the ledger was asked for the account of the month that has begun
	rows := must.Get(m.pool.Query(t.Context(), "SELECT key FROM weblimit.account WHERE period_start = $1 AND generation > 1", m.begins))(t)
	for _, key := range must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(t) {
		asked[key] = true
	}
	var sum struct{ accounts, billed, told, either, different, over, asked int64 }
	for i := range m.tallies {
		y, name := &m.tallies[i], tenant(i)
		hard := int64(monthHard)
		if m.hasCredit(i) {
			hard += monthHard
		}
		either := y.either
		for p := range y.alone {
			either += y.alone[p].units
		}
		for period, n := range used[name] {
			known := y.billed[period] + y.told[period]
			if n < known || n > known+either {
				if sum.different++; sum.different <= 10 {
					t.Errorf("%s: the ledger has %v units before and after the month began; granted were %v by Redis and %v by processes that told Redis, and %d may count", name, used[name], y.billed, y.told, either)
				}
			}
			if y.billed[period] > hard || n > 2*hard+processes {
				if sum.over++; sum.over <= 10 {
					t.Errorf("%s: %d of at most %d units, of which Redis granted %d", name, n, hard, y.billed[period])
				}
			}
			sum.billed, sum.told = sum.billed+y.billed[period], sum.told+y.told[period]
			if n > 0 {
				sum.accounts++
			}
		}
		if sum.either += either; asked[name] && y.billed[0]+y.told[0] > 0 {
			sum.asked++
		}
		delete(used, name)
	}
	figure(t, "accounts", sum.accounts)
	figure(t, "units that Redis granted", sum.billed)
	figure(t, "units that processes granted by themselves, and told Redis", sum.told)
	figure(t, "units of which nobody can know whether they count", sum.either)
	check.Equal(t, "accounts of which the ledger has other numbers", sum.different, 0)
	check.Equal(t, "accounts over the hard limit", sum.over, 0)
	check.Equal(t, "tenants of the month before for whom the ledger was asked", sum.asked, 0)
	check.Equal(t, "tenants in the ledger who sent nothing", len(used), 0)
}
