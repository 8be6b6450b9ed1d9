package billing

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/quota"
)

var (
	monthTimed    = flag.Bool("timed", false, "compare how long requests take before the month begins with how long they take then")
	monthDeadline = flag.Duration("deadline", patience, "how long a request waits for Redis") // a busy machine is slow, and not away
	monthTenants  = flag.Int("tenants", 1000, "how many tenants begin a month in the same second")
	monthRate     = flag.Float64("rate", 1000, "their requests per second")
	monthLasting  = flag.Duration("lasting", 2*time.Second, "for how long requests come before the month begins, and after that")
)

const (
	// monthHard and monthIncluded are the numbers of a tenant without a plan.
	monthHard     = 20
	monthIncluded = 15

	// monthBusy tenants send so much that they use up what they have: together one request of twenty.
	monthBusy  = 5
	monthShare = 20

	// monthCredited says which tenants have credits, of which the ledger is asked again when the month begins: one of so many.
	monthCredited = 50
)

// month is a billing month that begins for all tenants in the same second while requests come to two processes.
type month struct {
	t        *testing.T
	pool     *pgxpool.Pool
	books    [processes]*quota.Book
	handlers [processes]http.Handler
	begins   time.Time
	tallies  []tally // by tenant
	watched
}

// processes is how many processes serve the tenants.
const processes = 2

// newMonth returns a month that begins in a while.
func newMonth(t *testing.T, in time.Duration) *month {
	rdb, pg := redistest.Start(t), pgtest.Start(t)
	m := &month{t: t, pool: connect(t, pg.Database(t)), tallies: make([]tally, *monthTenants)}
	// Months begin at midnight, so this needs a time zone in which it is midnight then.
	m.begins = time.Now().Add(in).Truncate(time.Second).UTC()
	const day = 24 * 3600
	zone := time.FixedZone(fmt.Sprint("at ", m.begins.Unix()), int((day-m.begins.Unix()%day)%day))
	limit := core.PerBillingMonth(monthHard, m.begins.In(zone).Day(), zone).Soft(monthIncluded).Named(planName).OnOutage(core.Deny)
	ledgerTime := patience
	if *monthTimed {
		ledgerTime = 0 // the default
	}
	for i := range m.books {
		config := quota.Config{Store: redisstore.New(rdb.Client(t)), Timeout: ledgerTime}
		m.books[i] = must.Get(quota.Open(t.Context(), m.pool, config))(t)
		settings := nethttp.With(core.Config{
			Store: m.books[i].Store(), Timeout: *monthDeadline, Replicas: processes, Observe: &m.watched,
		})
		limiter := settings.Limit(m.books[i].PerTenant(limit, keyfuncs.Tenant(tenantKey{})))
		m.handlers[i] = limiter(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	for i := range *monthTenants {
		if !m.hasCredit(i) {
			continue
		}
		credit := quota.Credit{Operation: fmt.Sprint(i), Limit: planName, Tenant: tenant(i), Units: monthHard}
		must.Do(m.books[0].Credit(t.Context(), credit))(t)
	}
	return m
}

// hasCredit reports whether a tenant has credits.
func (*month) hasCredit(tenant int) bool { return tenant%monthCredited == monthBusy }

// each returns all tenants, one after the other.
func (m *month) each() func(n int64) (tenant, process int) {
	return func(n int64) (int, int) {
		if n >= int64(len(m.tallies)) {
			return -1, 0
		}
		return int(n), int(n) % processes
	}
}

// usual returns tenants at random, until a time.
func (m *month) usual(until time.Time) func(n int64) (tenant, process int) {
	return func(n int64) (int, int) {
		switch {
		case time.Now().After(until):
			return -1, 0
		case n%monthShare == 0:
			return rand.IntN(monthBusy), rand.IntN(processes)
		}
		return rand.IntN(len(m.tallies)), rand.IntN(processes)
	}
}

// settle has requests of tenants decided by Redis of which a process has granted some by itself, so that it tells Redis.
func (m *month) settle() (sent int) {
	for {
		var untold [][2]int
		for i := range m.tallies {
			for p := range processes {
				if m.tallies[i].alone[p].units > 0 {
					untold = append(untold, [2]int{i, p})
				}
			}
		}
		if len(untold) == 0 {
			return sent
		}
		m.load(func(n int64) (int, int) {
			if n >= int64(len(untold)) {
				return -1, 0
			}
			return untold[n][0], untold[n][1]
		})
		sent += len(untold)
	}
}

// A month begins for all tenants in the same second, in the worst of policies: no request is answered that the limiter is away,
// nobody has more than the hard limit, and the ledger has what was granted, without having been asked for the accounts of tenants
// that were there in the month before.
func TestAMonthBegins(t *testing.T) {
	t.Parallel()
	first := time.Duration(float64(*monthTenants) / *monthRate * float64(time.Second))
	m := newMonth(t, 3*first+*monthLasting) // so long that the ledger has begun all accounts, and been told what was granted meanwhile
	fresh := m.load(m.each())
	figure(t, "first requests ever", fresh)
	figure(t, "requests of tenants of whom a process had granted one by itself", m.settle())
	before := m.load(m.usual(m.begins))
	figure(t, "before the month begins", before)
	after := m.load(m.usual(time.Now().Add(*monthLasting)))
	figure(t, "after it has begun", after)
	m.settle()
	for what, a := range map[string]*answers{"the first requests ever": fresh, "before": before, "after": after} {
		check.Equal(t, what+": answers 503", a.codes[http.StatusServiceUnavailable], 0)
	}
	if *monthTimed && after.p99() > 2*before.p99() {
		t.Errorf("p99 is %v, and was %v in the time before", after.p99(), before.p99())
	}
	m.compare()
}
