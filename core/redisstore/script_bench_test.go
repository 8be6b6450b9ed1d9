package redisstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

const (
	scriptKeys     = 100_000
	scriptPipeline = 64 // requests in a round trip

	none = -1 // no limit is an alternative to others
)

// BenchmarkScript reports what a request costs within Redis, by its own account
// (INFO commandstats), on 100,000 keys that were all asked for before, and the memory of
// a key. Compare it with the empty script, and with the shortest scripts that count
// exactly and answer only yes or no.
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
	b.Run("5 plain GCRAs", func(b *testing.B) { benchmarkPlain(b, plainGCRAs) })
	b.Run("plain GCRAs of 64 keys in a call", func(b *testing.B) { benchmarkPlainCall(b, plainGCRAOfKeys) })
	b.Run("5 plain GCRAs of 64 keys in a call", func(b *testing.B) { benchmarkPlainCall(b, plainGCRAsOfKeys) })
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
		{"5 limits of a key, denied", scriptPipeline, append([]core.Limit{never}, buckets[1:]...)},
		{"5 limits of 64 keys in a call, denied", 1, append([]core.Limit{never}, buckets[1:]...)},
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
		b.Run(c.name, func(b *testing.B) { benchmarkScript(b, c.calls, c.limits, none) })
	}
	windows := []core.Limit{core.PerMonth(1_000_000, time.UTC).Named("plan"), mixed[1], core.PerHour(1_000_000).FixedWindow().Named("overage")}
	spent := []core.Limit{never.FixedWindow().Named("plan"), never.FixedWindow().Named("credits"), windows[2]}
	for _, c := range []struct {
		name   string
		limits []core.Limit
		payer  int // as the process remembers it
	}{
		{"3 windows of a key", windows, none},
		{"3 windows of a key, the first pays", windows, 0},
		{"3 windows of a key, the last pays", spent, 2},
		{"3 windows of a key, the last pays for the first time", spent, 0},
		{"3 buckets of a key, the first pays", buckets[:3], 0},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkScript(b, scriptPipeline, c.limits, c.payer) })
	}
}

// BenchmarkScriptDivided is BenchmarkScript for a limit that 1,000 clients divide, beside the same one undivided: a token
// bucket of one key, on which all requests are.
func BenchmarkScriptDivided(b *testing.B) {
	whole := core.PerSecond(1 << 30).Named("whole")
	clients := core.Shares{By: keyfuncs.Header("X-Client")}
	users := clients
	users.Within = keyfuncs.Header("X-User")
	for _, calls := range []int{scriptPipeline, 1} {
		each := map[int]string{scriptPipeline: "each in a call", 1: "64 in a call"}[calls]
		b.Run("undivided, "+each, func(b *testing.B) { benchmarkDivided(b, calls, whole, nil) })
		b.Run("divided, "+each, func(b *testing.B) {
			benchmarkDivided(b, calls, whole.Fair(clients), func(client string) *store.Share { return &store.Share{Key: []byte(client), Weight: 1} })
		})
		b.Run("with users, "+each, func(b *testing.B) {
			benchmarkDivided(b, calls, whole.Fair(users), func(client string) *store.Share {
				return &store.Share{Key: []byte(client[:2]), User: []byte(client), Weight: 1}
			})
		})
	}
}

// dividing is how many clients divide the limit.
const dividing = 1000

func benchmarkDivided(b *testing.B, calls int, limit core.Limit, share func(client string) *store.Share) {
	server := redistest.Start(b)
	client := server.Client(b)
	rule := mustRule(limit)
	measureScript(b, server, client, func() {
		sendTakes(b, client, calls, func(_ int, p *job) {
			check := core.Check{Key: []byte("all"), Rule: &rule, Cost: 1}
			p.add(0, &check, 0)
			if p.mergeable = false; share != nil {
				check.Share = share(scriptKey(rand.IntN(dividing)))
				p.addShare(&check, nil)
			}
		})
	})
}

// sendTakes sends as many takes as a round trip has, in this many calls. add adds the checks of one.
func sendTakes(b *testing.B, client *redis.Client, calls int, add func(i int, p *job)) {
	f := newBatch()
	for i := range scriptPipeline {
		p := newJob(take, i%calls) // calls are kept apart by their slots
		add(i, p)
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

// plainGCRAs is the shortest script of five token buckets in one value.
const plainGCRAs = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local value = redis.call('GET', KEYS[1])
local a, b, c, d, e = now, now, now, now, now
if value then a, b, c, d, e = struct.unpack('<I7I7I7I7I7', value) end
if a < now then a = now end
if b < now then b = now end
if c < now then c = now end
if d < now then d = now end
if e < now then e = now end
a, b, c, d, e = a + 3600, b + 36000, c + 86400, d + 7200, e + 1800000
local last = math.max(a, b, c, d, e)
if last - now > 3600000000 then return 0 end
redis.call('PSETEX', KEYS[1], string.format('%d', (last - now) / 1000 + 1), struct.pack('<I7I7I7I7I7', a, b, c, d, e))
return 1`

// plainGCRAsOfKeys is the shortest script of five token buckets in the value of each of several keys.
const plainGCRAsOfKeys = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local values, answers, max, unpack, pack = redis.call('MGET', unpack(KEYS)), {}, math.max, struct.unpack, struct.pack
for k = 1, #values do
  local a, b, c, d, e = now, now, now, now, now
  if values[k] then a, b, c, d, e = unpack('<I7I7I7I7I7', values[k]) end
  if a < now then a = now end
  if b < now then b = now end
  if c < now then c = now end
  if d < now then d = now end
  if e < now then e = now end
  a, b, c, d, e = a + 3600, b + 36000, c + 86400, d + 7200, e + 1800000
  local last = max(a, b, c, d, e)
  if last - now > 3600000000 then
    answers[k] = '0'
  else
    redis.call('PSETEX', KEYS[k], string.format('%d', (last - now) / 1000 + 1), pack('<I7I7I7I7I7', a, b, c, d, e))
    answers[k] = '1'
  end
end
return table.concat(answers)`

// plainGCRAOfKeys is the shortest script of a token bucket for each of several keys.
const plainGCRAOfKeys = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local values, answers = redis.call('MGET', unpack(KEYS)), {}
for k = 1, #values do
  local full = values[k] and tonumber(values[k]) or now
  if full < now then full = now end
  if full + 3600000 - now > 3600000000 then
    answers[k] = '0'
  else
    full = full + 3600000
    redis.call('PSETEX', KEYS[k], string.format('%d', (full - now) / 1000 + 1), string.format('%d', full))
    answers[k] = '1'
  end
end
return table.concat(answers)`

func scriptKey(n int) string { return fmt.Sprint("u", n) }

// benchmarkScript sends requests for random keys, in this many calls per round trip.
func benchmarkScript(b *testing.B, calls int, limits []core.Limit, payer int) {
	server := redistest.Start(b)
	client := server.Client(b)
	var paid payers
	rules, checks := make([]core.Rule, len(limits)), make([]core.Check, len(limits))
	for i, l := range limits {
		rules[i] = mustRule(l)
	}
	ask := func(key func(i int) int) {
		sendTakes(b, client, calls, func(i int, p *job) {
			for j := range rules {
				checks[j] = core.Check{Key: []byte(scriptKey(key(i))), Rule: &rules[j], Cost: 1}
			}
			p.Clock = time.Now().UnixMicro()
			if payer != none {
				p.payers = &paid
				paid.note(checks, payer)
				p.addChoice(0, checks)
				return
			}
			for j := range checks {
				p.add(j, &checks[j], 0)
			}
		})
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
	digest := must.Get(client.ScriptLoad(b.Context(), source).Result())(b)
	benchmarkCommands(b, server, "evalsha", func(key string) [][]any { return [][]any{{"evalsha", digest, 1, key}} })
}

// benchmarkPlainCall sends requests for random keys, 64 in a call.
func benchmarkPlainCall(b *testing.B, source string) {
	server := redistest.Start(b)
	client := server.Client(b)
	digest := must.Get(client.ScriptLoad(b.Context(), source).Result())(b)
	ask := func(key func(i int) int) {
		keys := make([]string, scriptPipeline)
		for i := range keys {
			keys[i] = DefaultPrefix + "{" + scriptKey(key(i)) + "}"
		}
		must.OK(b, client.EvalSha(b.Context(), digest, keys).Err())
	}
	for from := 0; from < scriptKeys; from += scriptPipeline {
		ask(func(i int) int { return from + i })
	}
	measureScript(b, server, client, func() { ask(func(int) int { return rand.IntN(scriptKeys) }) })
}

// benchmarkCommands sends the commands of requests for random keys, 64 requests per round
// trip, and reports the time of the named one, which the others run within or are counted with.
func benchmarkCommands(b *testing.B, server *redistest.Server, stat string, commands func(key string) [][]any) {
	client := server.Client(b)
	ask := func(key func(i int) int) {
		pipe := client.Pipeline()
		for i := range scriptPipeline {
			for _, command := range commands(DefaultPrefix + "{" + scriptKey(key(i)) + "}") {
				pipe.Do(b.Context(), command...)
			}
		}
		if _, err := pipe.Exec(b.Context()); err != nil && !errors.Is(err, redis.Nil) {
			b.Fatal(err)
		}
	}
	for from := 0; from < scriptKeys; from += scriptPipeline {
		ask(func(i int) int { return from + i })
	}
	measureScript(b, server, client, func() { ask(func(int) int { return rand.IntN(scriptKeys) }) }, strings.Fields(stat)...)
}

// BenchmarkNative reports what commands without a script cost within Redis, for comparison with
// BenchmarkScript: the least that a limiter within the server has to do, a function in place of a script,
// and GCRA on servers that have it. docs/run/redis.md has the figures, and why the store uses none of them.
func BenchmarkNative(b *testing.B) {
	b.Run("GET and PSETEX", func(b *testing.B) {
		benchmarkCommands(b, redistest.Start(b), "get psetex", func(key string) [][]any {
			return [][]any{{"get", key}, {"psetex", key, 3_600_000, "1795363610280302"}}
		})
	})
	b.Run("INCR and PEXPIRE", func(b *testing.B) {
		benchmarkCommands(b, redistest.Start(b), "incr pexpire", func(key string) [][]any {
			return [][]any{{"incr", key}, {"pexpire", key, 3_600_000}}
		})
	})
	for name, source := range map[string]string{"empty function": "return 1", "plain GCRA function": plainGCRA} {
		b.Run(name, func(b *testing.B) {
			redistest.Since(b, 7, 0, "functions")
			server := redistest.Start(b)
			library := "#!lua name=weblimit\nredis.register_function('take', function(KEYS, ARGV) " + source + " end)"
			must.OK(b, server.Client(b).FunctionLoad(b.Context(), library).Err())
			benchmarkCommands(b, server, "fcall", func(key string) [][]any { return [][]any{{"fcall", "take", 1, key}} })
		})
	}
	for _, limits := range []int{1, 3} {
		b.Run(fmt.Sprintf("GCRA, %d", limits), func(b *testing.B) {
			server := redistest.Start(b)
			if known, err := server.Client(b).Do(b.Context(), "command", "info", "gcra").Slice(); err != nil || len(known) != 1 || known[0] == nil {
				b.Skip("this server has no GCRA")
			}
			benchmarkCommands(b, server, "gcra", func(key string) (commands [][]any) {
				for i := range limits {
					commands = append(commands, []any{"gcra", fmt.Sprint(key, i), 999, 1000, 3600})
				}
				return commands
			})
		})
	}
}

// measureScript reports, per request, the time of the commands that ask runs, EVALSHA unless they are
// named; the server's processor time, network included (INFO cpu); and the bytes of a key.
func measureScript(b *testing.B, server *redistest.Server, client *redis.Client, ask func(), commands ...string) {
	if len(commands) == 0 {
		commands = []string{"evalsha"}
	}
	spent := func() (micros int64) {
		stats := server.Commandstats(b)
		for _, name := range commands {
			micros += stats[name].Micros
		}
		return micros
	}
	const sample = 1000
	bytes := int64(0)
	for n := range sample {
		used, err := client.MemoryUsage(b.Context(), DefaultPrefix+"{"+scriptKey(n)+"}").Result()
		if err == nil {
			bytes += used
		}
	}
	before, began, requests := spent(), server.Processor(b), 0
	for b.Loop() {
		ask()
		requests += scriptPipeline
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(spent()-before)/float64(requests), "redis-script-µs/op")
	b.ReportMetric((server.Processor(b)-began).Seconds()*1e6/float64(requests), "redis-cpu-µs/op")
	if bytes > 0 {
		b.ReportMetric(float64(bytes)/sample, "B/key")
	}
}
