package peers

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// combinerPeer shows what the idea of package redisstore can reach at best: concurrent callers' checks
// are gathered, and one script call decides many keys. It has no deadlines, outages, denial cache,
// limits, headers or Cluster, and each caller learns one number.
var combinerPeer = Peer{
	Name: "combiner", Module: goRedisModule, Counts: "fixed window, many keys in one script call, no more than a counter", Baseline: true,
	Redis: func(s Server, q Quota) (Limiter, error) {
		client := s.client()
		if err := combinerScript.Load(context.Background(), client).Err(); err != nil {
			return Limiter{}, err
		}
		c := &combiner{client: client, window: q.Window.Milliseconds()}
		return Limiter{
			Check: func(ctx context.Context, key string) (bool, error) {
				n, err := c.count(ctx, key)
				return err == nil && n <= q.Units, err
			},
			Close: func() { _ = client.Close() },
		}, nil
	},
}

const combinerSource = `
local counts = {}
for i = 1, #KEYS do
	local count = redis.call('INCRBY', KEYS[i], ARGV[i])
	if count == tonumber(ARGV[i]) then
		redis.call('PEXPIRE', KEYS[i], ARGV[#KEYS + 1])
	end
	counts[i] = count - ARGV[i] -- before this call
end
return counts`

var combinerScript = redis.NewScript(combinerSource)

const (
	combinerPlaces = 2  // round trips at a time
	combinerKeys   = 64 // of one script call
)

// combiner is a queue of waiting callers. Whoever finds a place free, or is woken to lead, makes the
// round trip for all that wait.
type combiner struct {
	client *redis.Client
	window int64

	mu       sync.Mutex
	inFlight int       // Guarded by mu.
	queue    []*waiter // Guarded by mu.
}

// waiter is a caller. lead is set if it has to make the round trip of others, too.
type waiter struct {
	key    string
	lead   []*waiter
	count  int64
	err    error
	signal chan struct{}

	place int // in the replies
}

var waiters = sync.Pool{New: func() any { return &waiter{signal: make(chan struct{}, 1)} }}

func (c *combiner) count(ctx context.Context, key string) (int64, error) {
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	w.key, w.lead, w.err = key, nil, nil
	c.mu.Lock()
	if c.inFlight < combinerPlaces {
		c.inFlight++
		c.mu.Unlock()
		c.run(ctx, w, []*waiter{w})
		return w.count, w.err
	}
	c.queue = append(c.queue, w)
	c.mu.Unlock()
	<-w.signal
	if w.lead != nil {
		c.run(ctx, w, w.lead)
	}
	return w.count, w.err
}

// run makes the round trip of a batch and has the next one begin.
func (c *combiner) run(ctx context.Context, leader *waiter, batch []*waiter) {
	at := make(map[string]int, combinerKeys)
	var keys []string
	var times []int64
	pipe := c.client.Pipeline()
	var calls []*redis.Cmd
	flush := func() {
		args := make([]any, 0, len(keys)+1)
		for _, n := range times {
			args = append(args, n)
		}
		calls = append(calls, combinerScript.EvalSha(ctx, pipe, keys, append(args, c.window)...))
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
		w.place, w.count = len(calls)*combinerKeys+n, times[n]
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
			w.count += replies[w.place/combinerKeys][w.place%combinerKeys].(int64)
		}
		if w != leader {
			w.signal <- struct{}{}
		}
	}
}
