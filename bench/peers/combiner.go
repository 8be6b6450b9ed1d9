package peers

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// combinerPeer shows what the idea of package redisstore can reach at best: concurrent callers' checks
// are gathered, and one script call decides many keys. It has no deadlines, outages, denial cache,
// limits, headers or Cluster, and each caller learns one number.
var combinerPeer = combinerOf("combiner", "fixed window, many keys in one script call, no more than a counter", redis.NewScript(`
local counts = {}
for i = 1, #KEYS do
	local count = redis.call('INCRBY', KEYS[i], ARGV[i])
	if count == tonumber(ARGV[i]) then
		redis.call('PEXPIRE', KEYS[i], ARGV[#KEYS + 2])
	end
	counts[i] = ARGV[#KEYS + 1] - (count - ARGV[i]) -- what is left for this call
end
return counts`), func(q Quota) []any { return []any{q.Units, q.Window.Milliseconds()} })

// combinerExact is combinerPeer for a token bucket. A rate is a whole number of microseconds for each unit.
var combinerExact = combinerOf("combiner-exact", "token bucket, many keys in one script call, no more than that", redis.NewScript(`
local time = redis.call('TIME')
local now, unit, window = time[1] * 1000000 + time[2], tonumber(ARGV[#KEYS + 1]), tonumber(ARGV[#KEYS + 2])
local values, fits = redis.call('MGET', unpack(KEYS)), {}
for i = 1, #KEYS do
	local full, fit = values[i] and tonumber(values[i]) or now, tonumber(ARGV[i])
	if full < now then full = now end
	local room = math.floor((window - (full - now)) / unit)
	if fit > room then fit = room end
	if fit > 0 then
		full = full + fit * unit
		redis.call('PSETEX', KEYS[i], string.format('%d', (full - now) / 1000 + 1), string.format('%d', full))
	end
	fits[i] = fit
end
return fits`), func(q Quota) []any {
	unit := (q.Window.Microseconds() + q.Units - 1) / q.Units
	return []any{unit, unit * q.Units}
})

// combinerOf is a combiner whose script says of each key how many of the callers fit, from the first one on. numbers are its
// last arguments.
func combinerOf(name, counts string, script *redis.Script, numbers func(Quota) []any) Peer {
	return Peer{
		Name: name, Module: goRedisModule, Counts: counts, Baseline: true,
		Redis: func(s Server, q Quota) (Limiter, error) {
			client := s.client()
			if err := script.Load(context.Background(), client).Err(); err != nil {
				return Limiter{}, err
			}
			c := &combiner{client: client, script: script, numbers: numbers(q)}
			return Limiter{Check: c.check, Close: func() { _ = client.Close() }}, nil
		},
	}
}

const (
	combinerPlaces = 2  // round trips at a time
	combinerKeys   = 64 // of one script call
)

// combiner is a queue of waiting callers. Whoever finds a place free, or is woken to lead, makes the
// round trip for all that wait.
type combiner struct {
	client  *redis.Client
	script  *redis.Script
	numbers []any

	mu       sync.Mutex
	inFlight int       // Guarded by mu.
	queue    []*waiter // Guarded by mu.
}

// waiter is a caller. lead is set if it has to make the round trip of others, too.
type waiter struct {
	key    string
	lead   []*waiter
	fits   bool
	err    error
	signal chan struct{}

	place int   // in the replies
	nth   int64 // of those who ask for the key
}

var waiters = sync.Pool{New: func() any { return &waiter{signal: make(chan struct{}, 1)} }}

func (c *combiner) check(ctx context.Context, key string) (bool, error) {
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	w.key, w.lead, w.err, w.fits = key, nil, nil, false
	c.mu.Lock()
	if c.inFlight < combinerPlaces {
		c.inFlight++
		c.mu.Unlock()
		c.run(ctx, w, []*waiter{w})
		return w.fits, w.err
	}
	c.queue = append(c.queue, w)
	c.mu.Unlock()
	<-w.signal
	if w.lead != nil {
		c.run(ctx, w, w.lead)
	}
	return w.fits, w.err
}

// run makes the round trip of a batch and has the next one begin.
func (c *combiner) run(ctx context.Context, leader *waiter, batch []*waiter) {
	at := make(map[string]int, combinerKeys)
	var keys []string
	var times []int64
	pipe := c.client.Pipeline()
	var calls []*redis.Cmd
	flush := func() {
		args := make([]any, 0, len(keys)+len(c.numbers))
		for _, n := range times {
			args = append(args, n)
		}
		calls = append(calls, c.script.EvalSha(ctx, pipe, keys, append(args, c.numbers...)...))
		clear(at)
		keys, times = nil, times[:0]
	}
	for _, w := range batch {
		n, known := at[w.key]
		if !known {
			if len(keys) == combinerKeys {
				flush()
			}
			n = len(keys)
			at[w.key] = n
			keys, times = append(keys, w.key), append(times, 0)
		}
		times[n]++
		w.place, w.nth = len(calls)*combinerKeys+n, times[n]
	}
	flush()
	_, err := pipe.Exec(ctx)
	c.mu.Lock()
	next := c.queue
	if len(next) == 0 {
		c.inFlight--
	} else {
		c.queue = nil
	}
	c.mu.Unlock()
	if len(next) > 0 {
		next[0].lead = next
		next[0].signal <- struct{}{}
	}
	replies := make([][]any, len(calls))
	for i, call := range calls {
		replies[i], _ = call.Val().([]any)
	}
	for _, w := range batch {
		w.err = err
		if err == nil {
			w.fits = w.nth <= replies[w.place/combinerKeys][w.place%combinerKeys].(int64)
		}
		if w != leader {
			w.signal <- struct{}{}
		}
	}
}
