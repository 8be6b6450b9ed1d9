package billing

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/quota"
)

// pair is a store on Redis without and with a book in PostgreSQL.
type pair struct {
	server *redistest.Server
	stores [2]store.Store
	rules  []*store.Rule
}

func newPair(t *testing.T, flushEvery time.Duration) (pair, *quota.Book) {
	t.Helper()
	p := pair{server: redistest.Start(t)}
	config := redisstore.Config{Prefix: "without:"}
	p.stores[0] = redisstore.New(p.server.Client(t), config)
	pool := connect(t, pgtest.Start(t).Database(t))
	book, err := quota.Open(t.Context(), pool, quota.Config{Store: redisstore.New(p.server.Client(t)), FlushEvery: flushEvery, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = book.Close(context.Background()) })
	p.stores[1] = book.Store()
	for _, s := range p.stores {
		if p.rules, err = rulesOf(s, limits(1<<40, 0)...); err != nil {
			t.Fatal(err)
		}
	}
	return p, book
}

// A request costs as many allocations and calls of Redis with a book as without; within a call, one command more.
func TestTheBookAddsNothingToARequest(t *testing.T) {
	race.Skip(t)
	p, _ := newPair(t, time.Minute)
	var allocations [2]float64
	var calls, commands, infos [2]int64
	for i, s := range p.stores {
		checks := []store.Check{{Key: []byte(tenant(1)), Rule: p.rules[0], Cost: 1}, {Key: []byte(tenant(1)), Rule: p.rules[1], Cost: 1}}
		results := make([]store.Result, 2)
		request := func() {
			if err := s.Take(context.Background(), checks, results); err != nil || !results[0].Charged || !results[1].Charged {
				t.Errorf("%+v, %v", results, err)
			}
		}
		for range 2000 {
			request()
		}
		const n = 2000
		before := p.server.Commandstats(t)
		for range n {
			request()
		}
		after := p.server.Commandstats(t)
		for name := range after {
			n := after[name].Calls - before[name].Calls
			if name == "evalsha" || name == "eval" {
				calls[i] += n
			}
			if name == "info" { // the script of an account asks which history the server has
				infos[i] += n
				continue
			}
			commands[i] += n
		}
		allocations[i] = testing.AllocsPerRun(2000, request)
	}
	figure(t, "allocations without and with a book", allocations)
	figure(t, "scripts, and all commands, in 2000 requests without and with a book", [][2]int64{calls, commands})
	if allocations[1] > allocations[0] {
		t.Errorf("%v allocations with a book, %v without", allocations[1], allocations[0])
	}
	if calls[0] != calls[1] || commands[1]-commands[0] > 3 { // new connections say hello
		t.Errorf("scripts %v, commands %v", calls, commands)
	}
	if infos[0] > 3 || infos[1] > calls[1]+3 { // this test asks, too
		t.Errorf("INFO is asked %v times in %v scripts", infos, calls)
	}
}

// How fast requests are without a book, with the algorithm that a book uses, and with a book, in
// turn. It prints figures, and fails for none.
func TestThroughput(t *testing.T) {
	if !long.Run() {
		t.Skip("measures time: make long runs it")
	}
	p, _ := newPair(t, time.Second)
	rdb := p.server.Client(t)
	info := must.Get(rdb.InfoMap(t.Context(), "server").Result())(t)
	redisProcess := must.Get(strconv.Atoi(info["Server"]["process_id"]))(t)
	keys := make([][]byte, 1000)
	for k := range keys {
		keys[k] = []byte(tenant(k))
	}
	twin := redisstore.New(p.server.Client(t), redisstore.Config{Prefix: "twin:"})
	ledger := must.Get(counting.LedgerOf(p.rules[0]))(t)
	for _, key := range keys {
		checks, results := []store.Check{{Key: key, Rule: ledger}}, make([]store.Result, 1)
		from := []counting.Restoration{{Generation: 1, Ends: ledger.PeriodEnd(time.Now().UnixMicro()), History: storetest.HistoryOf(t, twin, checks[0])}}
		if err := twin.Restore(t.Context(), checks, from, results); err != nil || !results[0].Charged {
			t.Fatalf("%+v, %v", results, err)
		}
	}
	ways := []struct {
		what            string
		store           store.Store
		rule            *store.Rule
		done            int64
		took, own, ofDB time.Duration
	}{
		{what: "without a book", store: p.stores[0], rule: p.rules[0]},
		{what: "the book's algorithm, without a book", store: twin, rule: ledger},
		{what: "with a book", store: p.stores[1], rule: p.rules[0]},
	}
	const rounds, each, goroutines = 12, 200 * time.Millisecond, 64
	for n := range rounds + 1 {
		for i := range ways {
			w := &ways[(i+n)%len(ways)] // none is always the first
			var count atomic.Int64
			began, own, ofDB := time.Now(), ownTime(t), statOf(t, redisProcess).used
			var all sync.WaitGroup
			for g := range goroutines {
				all.Go(func() {
					checks, results := []store.Check{{Rule: w.rule, Cost: 1}}, make([]store.Result, 1)
					for k := g * 7; time.Since(began) < each; k++ {
						checks[0].Key = keys[k%len(keys)]
						if err := w.store.Take(context.Background(), checks, results); err != nil || !results[0].Charged {
							t.Errorf("%s: %+v, %v", w.what, results, err)
							return
						}
						count.Add(1)
					}
				})
			}
			all.Wait()
			if n > 0 { // the first round opens the accounts
				w.done += count.Load()
				w.took, w.own, w.ofDB = w.took+time.Since(began), w.own+ownTime(t)-own, w.ofDB+statOf(t, redisProcess).used-ofDB
			}
		}
	}
	for i := range ways {
		w := &ways[i]
		per := func(d time.Duration) time.Duration {
			return (d / time.Duration(max(1, w.done))).Round(10 * time.Nanosecond)
		}
		figure(t, w.what, fmt.Sprintf("%.0f requests/s; CPU time each: %v here, %v in Redis", float64(w.done)/w.took.Seconds(), per(w.own), per(w.ofDB)))
	}
}

// What PostgreSQL takes of a core at 10,000 charges per second over 10,000 tenants.
func TestWhatPostgreSQLTakes(t *testing.T) {
	if !long.Run() {
		t.Skip("measures time: make long runs it")
	}
	const tenants, rate, lasting = 10_000, 10_000, 10 * time.Second
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr(), PoolSize: 32})
	t.Cleanup(func() { _ = rdb.Close() })
	pool := connect(t, pgtest.Start(t).Database(t))
	book := must.Get(quota.Open(t.Context(), pool, quota.Config{Store: redisstore.New(rdb)}))(t)
	rules := must.Get(rulesOf(book.Store(), limits(1<<40, 0)...))(t)
	var postmaster int
	var backend int
	must.OK(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	postmaster = statOf(t, backend).parent
	charge := func(n int) {
		checks, results := []store.Check{{Key: []byte(tenant(n)), Rule: rules[0], Cost: 1}}, make([]store.Result, 1)
		check.OK(t, book.Store().Take(context.Background(), checks, results))
	}
	load := func(total int, rate float64) time.Duration {
		began := time.Now()
		var next atomic.Int64
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				for n := next.Add(1); n <= int64(total); n = next.Add(1) {
					time.Sleep(time.Until(began.Add(time.Duration(float64(n) / rate * float64(time.Second)))))
					charge(int(n*7919) % tenants)
				}
			})
		}
		all.Wait()
		return time.Since(began)
	}
	opening := load(tenants, 1e9)
	must.OK(t, book.Flush(t.Context()))
	before := cpuOf(t, postmaster)
	took := load(int(rate*lasting.Seconds()), rate)
	used := cpuOf(t, postmaster) - before
	figure(t, "10,000 tenants charged for the first time, per second", int(tenants/opening.Seconds()))
	figure(t, "charges per second over 10,000 tenants", int(rate*lasting.Seconds()/took.Seconds()))
	figure(t, "PostgreSQL's share of a core", fmt.Sprintf("%.0f %%", 100*used.Seconds()/took.Seconds()))
	check.OK(t, book.Close(t.Context()))
	var sum int64
	for u, err := range book.Usage(t.Context(), quota.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		sum += u.Used
	}
	check.Equal(t, "units that the ledger has", sum, int64(rate*lasting.Seconds())+tenants)
}

// stat is what Linux says of a process.
type stat struct {
	parent int
	used   time.Duration // by it and by its children that have ended
}

// statOf reads /proc. See proc_pid_stat(5).
func statOf(t *testing.T, pid int) (s stat) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s // it has ended
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest) // from the third on
	if s.parent, err = strconv.Atoi(fields[4-3]); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{14, 15, 16, 17} { // utime, stime, cutime, cstime
		ticks := must.Get(strconv.ParseInt(fields[i-3], 10, 64))(t)
		s.used += time.Duration(ticks) * time.Second / 100
	}
	return s
}

func ownTime(t *testing.T) time.Duration { return statOf(t, os.Getpid()).used }

// cpuOf returns the CPU time of a process and its children.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	sum := statOf(t, pid).used
	dirs := must.Get(os.ReadDir("/proc"))(t)
	for _, dir := range dirs {
		if child, err := strconv.Atoi(dir.Name()); err == nil {
			if s := statOf(t, child); s.parent == pid {
				sum += s.used
			}
		}
	}
	return sum
}
