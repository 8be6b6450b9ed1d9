package redisstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// BenchmarkCheck is what a check of one token bucket costs this process by a Store, and by the floor: the
// smallest program that asks the same script the same questions for many callers.
func BenchmarkCheck(b *testing.B) {
	rule := must.Get(store.NewRule("floor", store.Numbers{Algorithm: store.TokenBucket, Quota: 1 << 40, Burst: 1 << 40, Window: time.Hour}))(b)
	programs := []struct {
		name string
		take func(c *redis.Client, prefix string) taking
	}{
		{"store", func(c *redis.Client, prefix string) taking { return New(c, Config{Prefix: prefix}).Take }},
		{"floor", func(c *redis.Client, prefix string) taking { return (&floor{client: c, prefix: prefix}).take }},
	}
	for _, n := range []struct {
		name string
		keys int
	}{{"1-key", 1}, {"100k-keys", 100_000}} {
		for _, callers := range []int{16, 64, 256} {
			for _, p := range programs {
				b.Run(fmt.Sprintf("%s/%s/%d", p.name, n.name, callers), func(b *testing.B) {
					take := p.take(redistest.Shared(b).Client(b), redistest.Prefix(b))
					benchmarkCallers(b, take, &rule, n.keys, callers)
				})
			}
		}
	}
}

// taking is a Store's Take, of one check here.
type taking func(ctx context.Context, checks []store.Check, results []store.Result) error

func benchmarkCallers(b *testing.B, take taking, rule *store.Rule, keys, callers int) {
	b.Helper()
	all := make([][]byte, keys)
	for i := range all {
		all[i] = fmt.Appendf(nil, "user:%07d", i)
	}
	var next, denied atomic.Int64
	var working sync.WaitGroup
	ask := func(most int, pick func(i int64) []byte) {
		next.Store(0)
		for range callers {
			working.Go(func() {
				checks, results := []store.Check{{Rule: rule, Cost: 1}}, make([]store.Result, 1)
				for i := next.Add(1); i <= int64(most); i = next.Add(1) {
					checks[0].Key = pick(i - 1)
					ctx := endsAt{b.Context(), time.Now().Add(time.Second)}
					if err := take(ctx, checks, results); err != nil || !results[0].Allowed {
						denied.Add(1)
					}
				}
			})
		}
		working.Wait()
	}
	ask(keys, func(i int64) []byte { return all[i] }) // so that all keys are there
	b.ReportAllocs()
	b.ResetTimer()
	began := ownCPU(b)
	ask(b.N, func(int64) []byte { return all[rand.IntN(keys)] })
	b.StopTimer()
	b.ReportMetric(float64((ownCPU(b)-began).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
	if n := denied.Load(); n > 0 {
		b.Errorf("%d checks were denied or failed", n)
	}
}

func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// floor asks the script for many callers at once, with a deadline for each, and does nothing else. It
// has no denial cache, breaker, probe, second attempt or Cluster, no errors by class, and one limit per check.
type floor struct {
	client *redis.Client
	prefix string

	mu       sync.Mutex
	inFlight int           // Guarded by mu.
	queue    []*floorJob   // Guarded by mu.
	flights  [][]*floorJob // Guarded by mu.
	sweeps   bool          // a sweep is planned. Guarded by mu.
}

// floorJob is a caller that waits.
type floorJob struct {
	script.Group
	hash   uint64
	ends   time.Time
	state  atomic.Int32  // one of the states below
	signal chan struct{} // when the state is answered or over, or there is a batch to lead
	lead   []*floorJob
	group  *floorGroup
	before int
}

const (
	floorWaits = iota
	floorAnswered
	floorOver
)

// floorGroup is what equal jobs ask.
type floorGroup struct {
	first *floorJob
	times int
	at    int64
	reply string
	err   error
}

var floorJobs = sync.Pool{New: func() any { return &floorJob{signal: make(chan struct{}, 1)} }}

func (f *floor) take(ctx context.Context, checks []store.Check, results []store.Result) error {
	j := floorJobs.Get().(*floorJob)
	j.Begin(take)
	j.Add(0, &checks[0], 0)
	j.Seal(f.prefix)
	j.hash, j.ends = maphash.Bytes(hashSeed, j.Bytes()), ctx.(counting.Deadline).Ends()
	j.state.Store(floorWaits)
	f.mu.Lock()
	if f.inFlight < maxInFlight {
		f.inFlight++
		f.mu.Unlock()
		f.run(j, []*floorJob{j})
	} else {
		f.queue = append(f.queue, j)
		f.planSweep()
		f.mu.Unlock()
		<-j.signal
		if j.state.Load() == floorOver {
			return context.DeadlineExceeded
		}
		if batch := j.lead; batch != nil {
			j.lead = nil
			f.run(j, batch)
		}
	}
	g := j.group
	if g.err != nil {
		return g.err
	}
	a, _ := j.Cut(g.reply, 0, checks)
	charged := j.before < a.Fits()
	reading := counting.Reading{At: g.at, Numbers: [4]int64{a.Number(0), a.Number(1)}}
	if charges := min(j.before+1, a.Fits()); charges > 0 {
		reading = reading.After(checks[0].Rule, int64(charges))
	}
	reading.Charged = charged
	reading.Answer(checks[0].Rule, 1, &results[0])
	j.group = nil
	floorJobs.Put(j)
	return nil
}

// run makes the round trip of a batch, has the next begin, and answers the callers.
func (f *floor) run(leader *floorJob, batch []*floorJob) {
	ctx, cancel := context.WithDeadline(context.Background(), leader.ends)
	cmds, groups := f.send(ctx, batch)
	cancel()
	f.mu.Lock()
	f.flights = slices.DeleteFunc(f.flights, func(b []*floorJob) bool { return &b[0] == &batch[0] })
	next := f.queue
	if f.queue = nil; len(next) == 0 {
		f.inFlight--
	} else {
		f.flights = append(f.flights, next)
	}
	f.mu.Unlock()
	for i := len(next) - 1; i >= 0; i-- {
		if j := next[i]; j.state.CompareAndSwap(floorWaits, floorAnswered) {
			j.lead = next
			j.signal <- struct{}{}
			break
		}
	}
	for i, cmd := range cmds {
		reply, err := script.ReadReply(cmd.Val())
		for k := range groups[i] {
			g := &groups[i][k]
			if g.at, g.err = reply.Now, errors.Join(cmd.Err(), err); g.err == nil {
				g.reply, _, g.err = reply.Next(&g.first.Group)
			}
		}
	}
	for _, j := range batch {
		if j != leader && j.state.CompareAndSwap(floorWaits, floorAnswered) {
			j.signal <- struct{}{}
		}
	}
}

// send makes calls of up to maxGroups groups of equal jobs, and waits for their replies.
func (f *floor) send(ctx context.Context, batch []*floorJob) (cmds []*redis.StringCmd, groups [][]floorGroup) {
	var wire script.Call
	pipe := f.client.Pipeline()
	for len(batch) > 0 {
		all := make([]floorGroup, 0, maxGroups)
		equal := make(map[uint64]int, maxGroups)
		n := 0
		for ; n < len(batch); n++ {
			j := batch[n]
			at, known := equal[j.hash]
			if !known || all[at].times == maxEqualJobs {
				if len(all) == maxGroups {
					break
				}
				at = len(all)
				equal[j.hash] = at
				all = append(all, floorGroup{first: j})
			}
			j.group, j.before = &all[at], all[at].times
			all[at].times++
		}
		wire.Begin(len(all), 0)
		for i := range all {
			wire.Add(&all[i].first.Group, all[i].times)
		}
		args := make([]any, 0, 4+len(wire.Keys)+len(wire.Asks))
		args = append(args, "evalsha", limitsScript.Hash(), len(wire.Keys))
		for _, key := range wire.Keys {
			args = append(args, key)
		}
		for _, ask := range wire.Asks {
			args = append(args, ask)
		}
		cmd := redis.NewStringCmd(ctx, append(args, wire.Order())...)
		_ = pipe.Process(ctx, cmd)
		cmds, groups, batch = append(cmds, cmd), append(groups, all), batch[n:]
		wire.Keys, wire.Asks = nil, nil
	}
	_, _ = pipe.Exec(ctx) // errors are in the commands
	return cmds, groups
}

// planSweep has callers told when their time is over. f.mu is held.
func (f *floor) planSweep() {
	if !f.sweeps {
		f.sweeps = true
		time.AfterFunc(50*time.Millisecond, f.sweep)
	}
}

func (f *floor) sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweeps = false
	for _, batch := range append(f.flights, f.queue) {
		for _, j := range batch {
			if time.Now().After(j.ends) && j.state.CompareAndSwap(floorWaits, floorOver) {
				j.signal <- struct{}{}
			}
		}
		if len(batch) > 0 {
			f.planSweep()
		}
	}
}
