package billing

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var (
	oneSeed = flag.Int64("seed", -1, "run this seed only")
	seeds   = flag.Int("seeds", long.Rounds(len(harms), 100), "how many seeds to run")
	first   = flag.Int("first", 0, "the first of these seeds")
)

// both stops the servers of PostgreSQL and Redis after the tests.
type both struct{ m *testing.M }

func (b both) Run() int { return redistest.Main(b.m) }

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(pgtest.Main(both{m}))
}

// figure prints a measured value, in the form that scripts/faults reads.
func figure(tb testing.TB, what string, value any) {
	tb.Helper()
	tb.Logf("figure\t%s\t%s\t%v", tb.Name(), what, value)
}

// The names of the limits that tests count by.
const (
	planName  = "plan"
	otherName = "other"
)

// patience is how long a test waits for something that must happen, on the busiest machine.
const patience = 3 * time.Minute

// billingDay is in two weeks, so that no period ends while a test runs. Processes have that of the
// process that started them, also around midnight.
var billingDay = time.Now().UTC().AddDate(0, 0, 14).Day()

// limits returns two limits of n units whose periods don't end while a test runs. Unless
// dayEnds is 0, those of the second are days, of which one ends then, in seconds since the epoch.
func limits(n, dayEnds int64) []core.Limit {
	tenant := keyfuncs.Tenant("tenant")
	other := core.PerBillingMonth(1<<40, billingDay, time.UTC)
	if dayEnds != 0 {
		const day = 24 * 60 * 60
		other = core.PerCalendarDay(1<<40, time.FixedZone("shift", int((day-dayEnds%day)%day)))
	}
	return []core.Limit{core.PerBillingMonth(n, billingDay, time.UTC).By(tenant).Named(planName), other.By(tenant).Named(otherName)}
}

// rulesOf registers limits at a store and returns their rules.
func rulesOf(s store.Store, limits ...core.Limit) ([]*store.Rule, error) {
	if _, err := core.New(core.Config{Store: s, Limits: limits}); err != nil {
		return nil, err
	}
	rules := make([]*store.Rule, len(limits))
	for i := range limits {
		rule, err := limits[i].Rule()
		if err != nil {
			return nil, err
		}
		rules[i] = &rule
	}
	return rules, nil
}

func connect(tb testing.TB, connString string) *pgxpool.Pool {
	tb.Helper()
	pool := must.Get(pgxpool.New(context.Background(), connString))(tb)
	tb.Cleanup(pool.Close)
	return pool
}

// tenant returns the key of a tenant.
func tenant(n int) string { return keyfuncs.Encode("tenant", fmt.Sprint(n)) }
