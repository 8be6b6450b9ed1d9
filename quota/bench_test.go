package quota

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// take asks a store for one of n tenants each time.
func take(b *testing.B, s store.Store, n int) {
	rule := ruleOf(b, monthly(1<<40))
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "tenant:%d", i)
	}
	var next atomic.Int64
	ctx := context.Background()
	checks, results := []store.Check{{Rule: rule, Cost: 1}}, make([]store.Result, 1)
	for _, key := range keys { // so that every account is known
		checks[0].Key = key
		if err := s.Take(ctx, checks, results); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		checks, results := []store.Check{{Rule: rule, Cost: 1}}, make([]store.Result, 1)
		for i := int(next.Add(997)); pb.Next(); i++ {
			checks[0].Key = keys[i%n]
			if err := s.Take(ctx, checks, results); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchBook(b *testing.B, s store.Store) store.Store {
	book := InMemory(Config{Store: s})
	b.Cleanup(func() { _ = book.Close(context.Background()) })
	return book.Store()
}

// BenchmarkTake compares a store with and without a book, over 1,000 tenants.
func BenchmarkTake(b *testing.B) {
	b.Run("memory", func(b *testing.B) { take(b, fresh(), 1000) })
	b.Run("memory with a book", func(b *testing.B) { take(b, benchBook(b, fresh()), 1000) })
	rdb := redistest.Shared(b).Client(b)
	onRedis := func() store.Store { return redisstore.New(rdb, redisstore.Config{Prefix: redistest.Prefix(b)}) }
	for _, parallel := range []int{1, 32} {
		b.Run(fmt.Sprintf("Redis, %d at once for each core", parallel), func(b *testing.B) {
			b.SetParallelism(parallel)
			take(b, onRedis(), 1000)
		})
		b.Run(fmt.Sprintf("Redis with a book, %d at once for each core", parallel), func(b *testing.B) {
			b.SetParallelism(parallel)
			take(b, benchBook(b, onRedis()), 1000)
		})
	}
}

// BenchmarkFlush writes positions of 10,000 accounts to PostgreSQL.
func BenchmarkFlush(b *testing.B) {
	l := pgledger.New(poolOf(b), "weblimit", defaultLevels)
	ctx := context.Background()
	if err := l.Migrate(ctx); err != nil {
		b.Fatal(err)
	}
	const n = 10_000
	positions, openings := make([]ledger.Position, n), make([]ledger.Opening, n)
	for i := range positions {
		a := month("plan", fmt.Sprintf("tenant:%d", i), time.November)
		openings[i], positions[i] = ledger.Opening{Account: a}, at(a, 1, 2, 1, 60)
	}
	if err := l.Begin(ctx, openings, nil, make([]ledger.Begun, n)); err != nil {
		b.Fatal(err)
	}
	before := busy(b, l)
	for b.Loop() {
		for i := range positions {
			positions[i].Position++
			positions[i].Used++
			positions[i].At++
		}
		for first := 0; first < n; first += flushBatch {
			if err := l.Flush(ctx, positions[first:first+flushBatch]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "accounts/s")
	b.ReportMetric((busy(b, l)-before).Seconds()*1000/float64(b.N), "PostgreSQL-ms/op")
}

// busy returns the time on a processor that the backends of the ledger's database have used. It is 0
// where there is no /proc.
func busy(b *testing.B, l *pgledger.Ledger) (sum time.Duration) {
	rows, err := l.Pool.Query(context.Background(), "SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
	if err != nil {
		b.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		b.Fatal(err)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0
		}
		_, numbers, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(numbers)
		for _, field := range fields[11:13] { // in user and in kernel mode, in hundredths of a second
			ticks, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum
}
