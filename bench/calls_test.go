package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/bench/peers"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// listener is a connection that notes the last script call written to it, so that the same
// call can be made without the peer: by plain go-redis, or pipelined. (A hook of go-redis would
// not see all: its clients that are made WithTimeout run none, in some versions.)
type listener struct {
	net.Conn
	call *[]any
}

func (l listener) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		var words []any
		if words, rest = command(rest); len(words) > 1 && words[0] == "evalsha" {
			*l.call = words
		}
	}
	return l.Conn.Write(b)
}

// command takes the first command off what is written to Redis, or all that is none.
func command(b []byte) (words []any, rest []byte) {
	next := func(sign byte) (n int) {
		line, after, _ := bytes.Cut(b, []byte("\r\n"))
		b = after
		if len(line) < 2 || line[0] != sign {
			return -1
		}
		n, err := strconv.Atoi(string(line[1:]))
		if err != nil {
			return -1
		}
		return n
	}
	for range next('*') {
		size := next('$')
		if size < 0 || size+2 > len(b) {
			return nil, nil
		}
		words, b = append(words, string(b[:size])), b[size+2:]
	}
	return words, b
}

// callOf returns the script call with which a peer charges one unit to the first of newKeys.
func callOf(tb testing.TB, s peers.Server, set func(peers.Server) (peers.Limiter, error)) []any {
	tb.Helper()
	var call []any
	s.Timeout = time.Minute
	s.Dial = func(_ context.Context, network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		return listener{conn, &call}, err
	}
	l := must.Get(set(s))(tb)
	defer l.Close()
	for _, key := range []string{"loads the script", newKeys(1)[0]} {
		call = nil
		must.Do(l.Check(tb.Context(), key))(tb)
	}
	if call == nil {
		tb.Fatal("no script was called")
	}
	return call
}

// forKeys returns the call for each of newKeys(n): they are as long as the first, so that
// nothing else in the arguments changes.
func forKeys(call []any, n int) [][]any {
	keys := newKeys(n)
	calls := make([][]any, n)
	for i := range calls {
		calls[i] = slices.Clone(call)
		for j, a := range call {
			if s, ok := a.(string); ok {
				calls[i][j] = strings.ReplaceAll(s, keys[0], keys[i])
			}
		}
	}
	return calls
}

// scripted are the limiters that check by one script call through go-redis.
func scripted() []peers.Peer {
	var all []peers.Peer
	for _, p := range peers.All() {
		switch p.Name {
		case "weblimit", "weblimit-fixed", "weblimit-3", "weblimit-5", "redis_rate", "ulule", "go-redis-script":
			all = append(all, p)
		}
	}
	return all
}

// The measurement would be void if the repeated calls charged nothing, or all the same key.
func TestCallsChargeTheirKeys(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(time.Hour, 2*time.Minute) // when windows of some peers end
	server := redistest.Start(t, "--databases", "64")
	for i, p := range scripted() {
		t.Run(p.Name, func(t *testing.T) {
			database := peers.Server{Network: server.Network(), Addr: server.Addr(), DB: 1 + i, Timeout: time.Minute}
			set := func(s peers.Server) (peers.Limiter, error) {
				return p.Redis(s, peers.Quota{Units: 2, Window: 10 * time.Hour})
			}
			call := callOf(t, database, set)
			l := must.Get(set(database))(t)
			defer l.Close()
			client := redis.NewClient(&redis.Options{Network: database.Network, Addr: database.Addr, DB: database.DB, ReadTimeout: time.Minute})
			defer client.Close()
			for _, c := range forKeys(call, 10)[1:] {
				for range 2 {
					must.OK(t, client.Do(t.Context(), c...).Err())
				}
			}
			for j, key := range newKeys(11) {
				allowed, err := l.Check(t.Context(), key)
				if want := j == 0 || j == 10; err != nil || allowed != want {
					t.Errorf("key %d: allowed %t, %v, want %t", j, allowed, err, want)
				}
			}
		})
	}
}

// BenchmarkCost has plain go-redis make the script calls of limiters, 64 in a pipeline and
// each of one check: what Redis itself has to do. 100,000 keys take turns at random. It
// reports redis-cpu-µs/op, redis-script-µs/op and redis-B/key as BenchmarkRedis does, and
// redis-used-B/key: what used_memory grows by for a key, tables of keys and expiries included.
func BenchmarkCost(b *testing.B) {
	lab := newRedisLab(b)
	db := 0
	for _, want := range []bool{true, false} {
		for _, p := range scripted() {
			var client *redis.Client
			var calls [][]any
			var used float64 // memory that a key takes
			db++
			b.Run(p.Name+"/"+verdict(want), func(b *testing.B) {
				if client == nil { // else b.N grows
					quota := peers.Denied
					if want {
						quota = peers.ManyKeys
					}
					database := peers.Server{Network: lab.server.Network(), Addr: lab.server.Addr(), DB: db}
					call := callOf(b, database, func(s peers.Server) (peers.Limiter, error) { return p.Redis(s, quota) })
					calls = forKeys(call, 100_000)
					client = redis.NewClient(&redis.Options{Network: lab.server.Network(), Addr: lab.server.Addr(), DB: db})
					before := lab.memory(b)
					for i := 0; i < len(calls); i += 64 {
						pipelined(b, client, calls[i:min(i+64, len(calls))])
					}
					used = (lab.memory(b) - before) / float64(len(calls))
				}
				lab.replay(b, client, calls)
				if want {
					b.ReportMetric(lab.bytesPerKey(b, p), "redis-B/key")
					b.ReportMetric(used, "redis-used-B/key")
				}
			})
			if client != nil {
				_ = client.Close()
			}
		}
	}
}

func (lab *redisLab) replay(b *testing.B, client *redis.Client, calls [][]any) {
	b.Helper()
	order := make([][]any, 0, 64)
	random := newPicker(newKeys(1), 1)
	before := lab.usage(b)
	b.ResetTimer()
	for left := b.N; left > 0; left -= len(order) {
		order = order[:0]
		for range min(left, 64) {
			order = append(order, calls[random.source.Uint64()%uint64(len(calls))])
		}
		pipelined(b, client, order)
	}
	b.StopTimer()
	after := lab.usage(b)
	b.ReportMetric((after.cpu-before.cpu)/float64(b.N), "redis-cpu-µs/op")
	b.ReportMetric((after.scripts-before.scripts)/float64(b.N), "redis-script-µs/op")
}

// memory returns what redis-server has allocated, in bytes.
func (lab *redisLab) memory(b *testing.B) float64 {
	b.Helper()
	info, err := lab.observer.InfoMap(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseFloat(info["Memory"]["used_memory"], 64)
	if err != nil {
		b.Fatalf("INFO memory: %v", err)
	}
	return n
}

func pipelined(b *testing.B, client *redis.Client, calls [][]any) {
	b.Helper()
	pipe := client.Pipeline()
	for _, c := range calls {
		pipe.Do(b.Context(), c...)
	}
	if _, err := pipe.Exec(b.Context()); err != nil {
		b.Fatal(fmt.Errorf("in a pipeline: %w", err))
	}
}
