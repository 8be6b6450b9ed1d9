package bench

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/bench/peers"
)

// pairs is how many checks of each kind make a block.
const pairs = 50

// BenchmarkIdle has one caller make a check with a limiter and the same script call with plain
// go-redis, in turns. How long a round trip takes depends on where the system runs the two
// processes, which it changes now and then; both sides of a pair see the same. It reports
//
//	ratio     the limiter's time divided by the plain call's: the median, over blocks of 50
//	          pairs, of the quotient of the two medians
//	p50-µs    the limiter's
//	plain-µs  the plain call's
func BenchmarkIdle(b *testing.B) {
	lab := newRedisLab(b)
	for i, p := range scripted() {
		if p.Name == "weblimit-5" || p.Name == "weblimit-fixed" {
			continue
		}
		b.Run(p.Name, func(b *testing.B) {
			database := peers.Server{Network: lab.server.Network(), Addr: lab.server.Addr(), DB: 1 + i}
			set := func(s peers.Server) (peers.Limiter, error) { return p.Redis(s, peers.OneKey) }
			call := callOf(b, database, set)
			l, err := set(database)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			client := redis.NewClient(&redis.Options{Network: database.Network, Addr: database.Addr, DB: database.DB})
			defer client.Close()
			ctx, key := context.Background(), newKeys(1)[0]
			check := func() error { _, err := l.Check(ctx, key); return err }
			plain := func() error { return client.Do(ctx, call...).Err() }
			var all [2][]time.Duration
			var ratios []float64
			failed := 0
			blocks := max(b.N/pairs, 20)
			b.ResetTimer()
			for i := range blocks {
				var took [2][]time.Duration
				for range pairs {
					for side, f := range []func() error{check, plain} {
						start := time.Now()
						if err := f(); err != nil {
							failed++
						}
						took[side] = append(took[side], time.Since(start))
					}
				}
				if i == 0 && blocks > 1 {
					continue // connections were made in it
				}
				ratios = append(ratios, float64(median(took[0]))/float64(median(took[1])))
				all[0], all[1] = append(all[0], took[0]...), append(all[1], took[1]...)
			}
			b.StopTimer()
			if failed > 0 {
				b.ReportMetric(float64(failed)/float64(blocks*pairs), "errors/op")
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(micros(median(all[0])), "p50-µs")
			b.ReportMetric(micros(median(all[1])), "plain-µs")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

const (
	burst = 1000 // callers at once
	pause = 3 * time.Millisecond
)

// BenchmarkBurst has 1,000 callers check at once after a pause, by limiters that have served
// such bursts before. It reports as ns/op how long it took until the last one had its answer,
// in the median of bursts, and
//
//	round-trips  the same, as a multiple of a check alone just before
//	reads        how many round trips the 1,000 made: reads of redis-server, as in BenchmarkRedis
//	errors/op    checks that failed
//
// In the row "nobody" they make no check: it shows the cost of waking them.
func BenchmarkBurst(b *testing.B) {
	lab := newRedisLab(b)
	all := rotated(func(p peers.Peer) bool {
		switch p.Name {
		case "weblimit", "redis_rate", "ulule", "go-redis-auto", "go-redis-duplex", "rueidis-script":
			return true
		}
		return false
	})
	for _, n := range []int{1, burst} {
		for _, p := range all {
			b.Run(p.Name+"/"+counts[n], func(b *testing.B) { bursts(b, lab, lab.setting(b, p, n, true)) })
		}
		nobody := peers.Limiter{Check: func(context.Context, string) (bool, error) { return true, nil }}
		b.Run("nobody/"+counts[n], func(b *testing.B) { bursts(b, lab, &setting{limiter: nobody, keys: newKeys(n)}) })
	}
}

func bursts(b *testing.B, lab *redisLab, s *setting) {
	b.Helper()
	var whole []time.Duration
	var ratios []float64
	var failed atomic.Int64
	const single = 5 // checks alone, before each
	times := max(b.N, 10)
	before := lab.usage(b)
	for i := range times + 1 {
		var done sync.WaitGroup
		begin := make(chan struct{})
		for j := range burst {
			done.Go(func() {
				<-begin
				if _, err := s.limiter.Check(b.Context(), s.keys[j%len(s.keys)]); err != nil {
					failed.Add(1)
				}
			})
		}
		time.Sleep(pause) // all wait
		var alone []time.Duration
		for range single {
			start := time.Now()
			if _, err := s.limiter.Check(b.Context(), s.keys[0]); err != nil {
				failed.Add(1)
			}
			alone = append(alone, time.Since(start))
		}
		start := time.Now()
		close(begin)
		done.Wait()
		if i == 0 {
			continue // it made the connections
		}
		whole = append(whole, time.Since(start))
		ratios = append(ratios, float64(whole[len(whole)-1])/float64(max(median(alone), 1)))
	}
	// Half a round trip per burst, or so, is for connections and for the questions themselves.
	reads := (lab.usage(b).reads-before.reads)/float64(times+1) - single
	b.ReportMetric(max(reads, 0), "reads")
	slices.Sort(ratios)
	b.ReportMetric(float64(median(whole)), "ns/op")
	b.ReportMetric(ratios[len(ratios)/2], "round-trips")
	b.ReportMetric(float64(failed.Load())/float64(burst*(times+1)), "errors/op")
}
