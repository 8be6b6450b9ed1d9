package bench

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/bench/latency"
	"github.com/weblimit/weblimit/bench/peers"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// BenchmarkRedis has goroutines call one limiter, whose state is in a redis-server on the same
// machine. Besides time and allocations it reports
//
//	p50-µs, p99-µs      how long a check took; one in eight is timed
//	client-cpu-µs/op    processor time of this process, which asks
//	redis-cpu-µs/op     processor time of redis-server, network included (INFO cpu)
//	redis-script-µs/op  the part of it within scripts (INFO commandstats)
//	redis-calls/op      calls of scripts (the same)
//	redis-reads/op      reads of redis-server from its connections (INFO stats): round trips,
//	                    since a batch of less than 16 KB is one read
//	redis-B/key         MEMORY USAGE of all that a key leaves in Redis
//	errors/op           checks that failed, and neither allowed nor denied
func BenchmarkRedis(b *testing.B) {
	lab := newRedisLab(b)
	all := rotated(func(p peers.Peer) bool { return p.Redis != nil })
	for _, keys := range []int{1, 100_000} {
		for _, goroutines := range []int{1, 16, 64, 256} {
			for _, want := range []bool{true, false} {
				for _, p := range all {
					if p.Scenario != nil && !p.Scenario(keys, want) {
						continue
					}
					name := fmt.Sprintf("%s/%s/%d/%s", p.Name, counts[keys], goroutines, verdict(want))
					b.Run(name, func(b *testing.B) {
						lab.run(b, lab.setting(b, p, keys, want), goroutines)
					})
				}
			}
		}
	}
}

func verdict(allowed bool) string {
	if allowed {
		return "allow"
	}
	return "deny"
}

// redisLab is a redis-server with the limiters that use it.
type redisLab struct {
	server   *redistest.Server
	observer *redis.Client
	settings map[string]*setting
	keys     map[int][]string // by their number
	bytes    map[string]float64
}

// setting is a limiter in the state that a scenario starts from: each key was asked for
// before, and has room left or none.
type setting struct {
	limiter peers.Limiter
	keys    []string
	want    bool
	bytes   float64 // per key; 0 where it isn't reported
}

func newRedisLab(b *testing.B) *redisLab {
	server := redistest.Start(b, "--databases", "256") // stopped when all of them are done
	return &redisLab{server, server.Client(b), map[string]*setting{}, map[int][]string{}, map[string]float64{}}
}

// setting returns the limiter of a scenario. It is made once for all numbers of goroutines,
// in its own database, and closed with the lab: b is only one of its users.
func (lab *redisLab) setting(b *testing.B, p peers.Peer, keys int, want bool) *setting {
	b.Helper()
	id := fmt.Sprint(p.Name, keys, want)
	if s, ok := lab.settings[id]; ok {
		return s
	}
	quota := peers.Denied
	if want {
		quota = allowing(keys)
	}
	if lab.keys[keys] == nil {
		lab.keys[keys] = newKeys(keys)
	}
	s := &setting{keys: lab.keys[keys], want: want}
	var err error
	s.limiter, err = p.Redis(peers.Server{
		Network: lab.server.Network(), Addr: lab.server.Addr(), DB: len(lab.settings) + 1,
	}, quota)
	if err != nil {
		b.Fatal(err)
	}
	touch(b, s.limiter, s.keys, 64)
	if want && keys > 1 {
		s.bytes = lab.bytesPerKey(b, p)
	}
	lab.settings[id] = s
	return s
}

// allowing returns the quota that allows all checks of one scenario with so many keys.
func allowing(keys int) peers.Quota {
	if keys == 1 {
		return peers.OneKey
	}
	return peers.ManyKeys
}

// touch asks for each key once, again where there was an error.
func touch(tb testing.TB, l peers.Limiter, keys []string, goroutines int) {
	tb.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(keys)); i = next.Add(1) - 1 {
				var err error
				for range 100 {
					if _, err = l.Check(tb.Context(), keys[i]); err == nil {
						break
					}
				}
				if err != nil {
					tb.Errorf("first check of %s: %v", keys[i], err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// worker is what one goroutine of a benchmark has seen.
type worker struct {
	took          latency.Histogram
	errors, wrong int
}

// run has goroutines do b.N checks between them.
func (lab *redisLab) run(b *testing.B, s *setting, goroutines int) {
	workers := make([]worker, goroutines)
	pickers := make([]*picker, goroutines)
	for i := range pickers {
		pickers[i] = newPicker(s.keys, uint64(i))
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	before := lab.usage(b)
	b.ReportAllocs()
	b.ResetTimer()
	began := ownCPU(b)
	for i := range workers {
		wg.Go(func() { workers[i].work(b, s, pickers[i], &left) })
	}
	wg.Wait()
	b.StopTimer()
	used := ownCPU(b) - began
	after := lab.usage(b)

	sum := &workers[0]
	for i := range workers[1:] {
		w := &workers[1+i]
		sum.took.Merge(&w.took)
		sum.errors += w.errors
		sum.wrong += w.wrong
	}
	n := float64(b.N)
	if sum.wrong > 0 {
		b.Errorf("%d of %d decisions were not to %s", sum.wrong, b.N, verdict(s.want))
	}
	if sum.errors > 0 {
		b.ReportMetric(float64(sum.errors)/n, "errors/op")
	}
	b.ReportMetric(micros(sum.took.Quantile(0.5)), "p50-µs")
	b.ReportMetric(micros(sum.took.Quantile(0.99)), "p99-µs")
	b.ReportMetric(micros(used)/n, "client-cpu-µs/op")
	b.ReportMetric((after.cpu-before.cpu)/n, "redis-cpu-µs/op")
	if after.scripts > before.scripts {
		b.ReportMetric((after.scripts-before.scripts)/n, "redis-script-µs/op")
		b.ReportMetric((after.calls-before.calls)/n, "redis-calls/op")
	}
	b.ReportMetric((after.reads-before.reads)/n, "redis-reads/op")
	if s.bytes > 0 {
		b.ReportMetric(s.bytes, "redis-B/key")
	}
}

// ownCPU returns the processor time that this process has used. Unlike the time that passes, it
// does not depend on what else the machine does.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// work does checks until none are left. One in eight is timed: reading the clock costs as
// much as some decisions.
func (w *worker) work(b *testing.B, s *setting, keys *picker, left *atomic.Int64) {
	ctx := b.Context()
	for i := 0; left.Add(-1) >= 0; i++ {
		key := keys.pick()
		timed := i%8 == 0
		var start time.Time
		if timed {
			start = time.Now()
		}
		allowed, err := s.limiter.Check(ctx, key)
		if timed {
			w.took.Record(time.Since(start))
		}
		switch {
		case err != nil:
			w.errors++
		case allowed != s.want:
			w.wrong++
		}
	}
}

// usage is what redis-server has used and done since it started, times in microseconds.
type usage struct{ cpu, scripts, calls, reads float64 }

func (lab *redisLab) usage(b *testing.B) usage { return usageOf(b, lab.server, lab.observer) }

func usageOf(b *testing.B, server *redistest.Server, observer *redis.Client) usage {
	b.Helper()
	info, err := observer.InfoMap(b.Context()).Result()
	if err != nil {
		b.Fatal(err)
	}
	number := func(section, name string) float64 {
		v, err := strconv.ParseFloat(info[section][name], 64)
		if err != nil {
			b.Fatalf("INFO %s: %s: %v", section, name, err)
		}
		return v
	}
	stats := server.Commandstats(b)
	sha, eval := stats["evalsha"], stats["eval"]
	return usage{
		cpu:     1e6 * (number("CPU", "used_cpu_sys") + number("CPU", "used_cpu_user")),
		scripts: float64(sha.Micros + eval.Micros),
		calls:   float64(sha.Calls + eval.Calls),
		reads:   number("Stats", "total_reads_processed"),
	}
}

// bytesPerKey returns what Redis needs for a key of a peer, on a server of its own.
func (lab *redisLab) bytesPerKey(b *testing.B, p peers.Peer) float64 {
	b.Helper()
	if n, ok := lab.bytes[p.Name]; ok {
		return n
	}
	const keys = 1000
	server := redistest.Start(b)
	l, err := p.Redis(peers.Server{Network: server.Network(), Addr: server.Addr()}, peers.ManyKeys)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	touch(b, l, newKeys(keys), 1)
	client := server.Client(b)
	sum := int64(0)
	all := client.Scan(b.Context(), 0, "*", keys).Iterator()
	for all.Next(b.Context()) {
		n, err := client.MemoryUsage(b.Context(), all.Val()).Result()
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	if err := all.Err(); err != nil {
		b.Fatal(err)
	}
	lab.bytes[p.Name] = float64(sum) / keys
	return lab.bytes[p.Name]
}
