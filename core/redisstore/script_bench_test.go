package redisstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

const (
	scriptKeys     = 100_000
	scriptPipeline = 64 // requests in a round trip
)

// BenchmarkScript reports what a request costs within Redis, by its own account
// (INFO commandstats), on 100,000 keys that were all asked for before, and the memory of
// a key. Compare it with the empty script, and with the shortest script that counts
// exactly and answers only yes or no.
func BenchmarkScript(b *testing.B) {
	// The windows are so long that records last from one request for a key to the next.
	hour := core.PerHour(1_000).Named("hour")
	buckets := []core.Limit{
		hour,
		core.PerDay(10_000).Named("day"),
		core.Per(100_000, 30*24*time.Hour).Named("month"),
		core.PerHour(997).Named("odd"),
		core.PerMinute(60).Named("minute"),
	}
	mixed := []core.Limit{
		hour,
		core.PerDay(1_000_000).FixedWindow().Named("fixed"),
		buckets[1],
		core.PerHour(100_000).SlidingWindow().Named("sliding"),
		buckets[3],
	}
	block := core.Block{After: 1, Within: 1000 * time.Hour, For: 1000 * time.Hour}
	never := core.Per(1, 1000*time.Hour).Named("never")

	b.Run("empty", func(b *testing.B) { benchmarkPlain(b, "return 1") })
	b.Run("plain GCRA", func(b *testing.B) { benchmarkPlain(b, plainGCRA) })
	for _, c := range []struct {
		name   string
		calls  int
		limits []core.Limit
	}{
		{"one", scriptPipeline, buckets[:1]},
		{"64 keys in a call", 1, buckets[:1]},
		{"3 limits of a key", scriptPipeline, buckets[:3]},
		{"5 limits of a key", scriptPipeline, buckets},
		{"5 limits of 64 keys in a call", 1, buckets},
		{"5 mixed limits of a key", scriptPipeline, mixed},
		{"denied", scriptPipeline, []core.Limit{never}},
		{"64 denied in a call", 1, []core.Limit{never}},
		{"with a penalty", scriptPipeline, []core.Limit{hour.Penalty(block)}},
		{"blocked", scriptPipeline, []core.Limit{never.Penalty(block)}},
		{"odd rate", scriptPipeline, buckets[3:4]},
		{"fixed window", scriptPipeline, mixed[1:2]},
		{"sliding window", scriptPipeline, mixed[3:4]},
		{"sliding log", scriptPipeline, []core.Limit{core.PerHour(20).SlidingLog()}},
		{"calendar window", scriptPipeline, []core.Limit{core.PerMonth(1_000_000, time.UTC)}},
		{"concurrency", scriptPipeline, []core.Limit{core.Concurrent(20).Lease(time.Hour)}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkScript(b, c.calls, c.limits) })
	}
}

// plainGCRA is the shortest script of a token bucket.
const plainGCRA = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full = redis.call('GET', KEYS[1])
full = full and tonumber(full) or now
if full < now then full = now end
if full + 3600000 - now > 3600000000 then return 0 end
full = full + 3600000
redis.call('PSETEX', KEYS[1], string.format('%d', (full - now) / 1000 + 1), string.format('%d', full))
return 1`

func scriptKey(n int) string { return fmt.Sprint("u", n) }

// benchmarkScript sends requests for random keys, in this many calls per round trip.
func benchmarkScript(b *testing.B, calls int, limits []core.Limit) {
	server := redistest.Start(b)
	client := server.Client(b)
	rules := make([]core.Rule, len(limits))
	for i, l := range limits {
		rules[i] = mustRule(l)
	}
	ask := func(key func(i int) int) {
		f := newBatch()
		for i := range scriptPipeline {
			p := newJob(take, i%calls) // calls are kept apart by their slots
			for j := range rules {
				p.add(j, &core.Check{Key: []byte(scriptKey(key(i))), Rule: &rules[j], Cost: 1}, 0)
			}
			p.seal(DefaultPrefix)
			f.jobs = append(f.jobs, p)
		}
		f.run(b.Context(), client, 0)
		for _, p := range f.jobs {
			if p.err != nil {
				b.Fatal(p.err)
			}
			p.release()
		}
		f.release()
	}
	for from := 0; from < scriptKeys; from += scriptPipeline {
		ask(func(i int) int { return from + i })
	}
	var keys [scriptPipeline]int
	measureScript(b, server, client, func() {
		for i := range keys {
			keys[i] = rand.IntN(scriptKeys)
		}
		ask(func(i int) int { return keys[i] })
	})
}

func benchmarkPlain(b *testing.B, source string) {
	server := redistest.Start(b)
	client := server.Client(b)
	digest, err := client.ScriptLoad(b.Context(), source).Result()
	if err != nil {
		b.Fatal(err)
	}
	ask := func(key func(i int) int) {
		pipe := client.Pipeline()
		for i := range scriptPipeline {
			pipe.EvalSha(b.Context(), digest, []string{DefaultPrefix + "{" + scriptKey(key(i)) + "}"})
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for from := 0; from < scriptKeys; from += scriptPipeline {
		ask(func(i int) int { return from + i })
	}
	measureScript(b, server, client, func() { ask(func(int) int { return rand.IntN(scriptKeys) }) })
}

// measureScript reports the time of the scripts that ask runs, per request, and the bytes
// of a key.
func measureScript(b *testing.B, server *redistest.Server, client *redis.Client, ask func()) {
	const sample = 1000
	bytes := int64(0)
	for n := range sample {
		used, err := client.MemoryUsage(b.Context(), DefaultPrefix+"{"+scriptKey(n)+"}").Result()
		if err == nil {
			bytes += used
		}
	}
	before := server.Commandstats(b)["evalsha"].Micros
	requests := 0
	for b.Loop() {
		ask()
		requests += scriptPipeline
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(server.Commandstats(b)["evalsha"].Micros-before)/float64(requests), "redis-script-µs/op")
	if bytes > 0 {
		b.ReportMetric(float64(bytes)/sample, "B/key")
	}
}
