package postgres

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// both stops the servers of both packages after the tests.
type both struct{ *testing.M }

func (b both) Run() int { return redistest.Main(b.M) }

func TestMain(m *testing.M) { os.Exit(pgtest.Main(both{m})) }

func ruleOf(b *testing.B, l core.Limit) *core.Rule {
	b.Helper()
	r, err := l.Rule()
	if err != nil {
		b.Fatal(err)
	}
	return &r
}

// BenchmarkTake compares the stores in one run. p50 and p99 are of one call. PostgreSQL waits
// for the disk with each commit, unless the name of the row says otherwise. Four stores with
// pools of their own stand for four processes: clients are spread over all of them.
func BenchmarkTake(b *testing.B) {
	limits := map[string]core.Limit{
		"granted": core.PerSecond(1_000_000_000).Named("granted"),
		"denied":  core.Per(1, 1000*time.Hour).Named("denied"),
	}
	stores := []struct {
		name string
		make func(b *testing.B) []core.Store
	}{
		{"pgstore", func(b *testing.B) []core.Store { return postgres(b, 1) }},
		{"pgstore, 4 processes", func(b *testing.B) []core.Store { return postgres(b, 4) }},
		{"pgstore, synchronous_commit off", func(b *testing.B) []core.Store { return postgres(b, 1, "synchronous_commit=off") }},
		{"redisstore", func(b *testing.B) []core.Store { return redisStores(b, 1) }},
		{"redisstore, 4 processes", func(b *testing.B) []core.Store { return redisStores(b, 4) }},
	}
	for _, s := range stores {
		for _, c := range []struct {
			limit   string
			keys    int
			callers int
		}{{"granted", 1, 1}, {"granted", 1, 64}, {"granted", 10_000, 1}, {"granted", 10_000, 64}, {"denied", 1, 64}} {
			b.Run(fmt.Sprintf("%s/%s/%d keys/%d callers", s.name, c.limit, c.keys, c.callers), func(b *testing.B) {
				benchmarkTake(b, s.make(b), ruleOf(b, limits[c.limit]), c.keys, c.callers)
			})
		}
	}
}

// postgres returns stores on a server of their own.
func postgres(b *testing.B, n int, settings ...string) (stores []core.Store) {
	b.Helper()
	server := pgtest.Start(b, append(settings, "fsync=on", "full_page_writes=on")...)
	for range n {
		pool, err := pgxpool.New(b.Context(), server.ConnString("")+" pool_max_conns=8")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(pool.Close)
		s, err := pgstore.Open(b.Context(), pool)
		if err != nil {
			b.Fatal(err)
		}
		stores = append(stores, s)
	}
	return stores
}

func redisStores(b *testing.B, n int) (stores []core.Store) {
	b.Helper()
	config := redisstore.Config{Prefix: redistest.Prefix(b), DenialCache: redisstore.DenialCache{Disabled: true}}
	for range n {
		stores = append(stores, redisstore.New(redistest.Shared(b).Client(b), config))
	}
	return stores
}

func benchmarkTake(b *testing.B, stores []core.Store, rule *core.Rule, keys, callers int) {
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "user:%d", i)
	}
	var next atomic.Int64
	took := make([][]time.Duration, callers)
	var all sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for c := range callers {
		all.Go(func() {
			s := stores[c%len(stores)]
			results := make([]core.Result, 1)
			seed := uint64(c+1) * 7919
			for next.Add(1) <= int64(b.N) {
				seed = seed*6364136223846793005 + 1442695040888963407
				began := time.Now()
				if err := s.Take(b.Context(), []core.Check{{Key: names[int(seed>>33)%keys], Rule: rule, Cost: 1}}, results); err != nil {
					b.Error(err)
					return
				}
				took[c] = append(took[c], time.Since(began))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	sorted := slices.Concat(took...)
	slices.Sort(sorted)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "checks/s")
	b.ReportMetric(float64(sorted[len(sorted)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(sorted[len(sorted)*99/100].Microseconds()), "p99-µs")
}
