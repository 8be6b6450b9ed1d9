package top

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
)

// sketch finds heavy hitters. The sketches here are why table is as it is: all have 2,048 clients.
type sketch interface {
	add(client uint64)
	clients() []counted
}

const sketchSize = 2048

// BenchmarkSketches compares sketches on the streams:
//
//	go test ./metrics/top -run '^$' -bench Sketches -benchtime 1x
func BenchmarkSketches(b *testing.B) {
	for _, s := range []struct {
		name string
		make func() sketch
	}{
		{"randomized admission", newAdmission},
		{"Space-Saving", func() sketch { return &spaceSaving{counters: newCounters()} }},
		{"Misra-Gries", func() sketch { return &misraGries{m: map[uint64]int64{}} }},
		{"Count-Min and heap", func() sketch { return &countMin{counters: newCounters()} }},
		{"HeavyKeeper", func() sketch { return &heavyKeeper{counters: newCounters()} }},
	} {
		b.Run(s.name, func(b *testing.B) {
			for i := range streams(0) {
				stream := streams(5_000_000)[i]
				b.Run(stream.name, func(b *testing.B) {
					for range b.N {
						sketch := s.make()
						clients := make([]uint64, 0, stream.n)
						want := stream.exactly(func(client uint64) { clients = append(clients, client) })
						began := time.Now()
						for _, client := range clients {
							sketch.add(client)
						}
						took := time.Since(began)
						found, mean, worst := quality(want, sketch.clients())
						b.ReportMetric(float64(took.Nanoseconds())/float64(stream.n), "ns/request")
						b.ReportMetric(100*found, "%found")
						b.ReportMetric(100*mean, "%mean-error")
						b.ReportMetric(100*worst, "%worst-error")
						b.ReportMetric(0, "ns/op")
					}
				})
			}
		})
	}
}

// admission is the table of this package.
type admission struct {
	limit    *limit
	secret   secret
	decision decision
	key      []byte
}

func newAdmission() sketch {
	rule, err := core.PerHour(1 << 30).Rule()
	if err != nil {
		panic(err)
	}
	a := &admission{limit: newLimit(rule.Name, rule.ID(), sketchSize, secret{1, 2}), secret: secret{1, 2}, key: make([]byte, 0, 16)}
	a.decision = decision{LimitResult: &core.LimitResult{Rule: &rule, Result: core.Result{Allowed: true, Remaining: 1 << 29}}, cost: 1}
	return a
}

func (a *admission) add(client uint64) {
	a.key = keyOf(a.key, client)
	a.decision.key = a.key
	a.limit.note(&a.decision, a.secret.hash(a.key), 17_000_000_000)
}

func (a *admission) clients() (all []counted) {
	for _, c := range a.limit.snapshot(17_000_000_000, sketchSize, 0).Clients {
		all = append(all, counted{clientOf(c.Key), c.Hour.Requests})
	}
	return all
}

// counters are counts in a heap, the lowest first.
type counters struct {
	all   []counted
	place map[uint64]int
}

func newCounters() *counters { return &counters{place: map[uint64]int{}} }

func (c *counters) Len() int           { return len(c.all) }
func (c *counters) Less(i, j int) bool { return c.all[i].n < c.all[j].n }
func (c *counters) Push(x any)         { c.all = append(c.all, x.(counted)) }
func (c *counters) Pop() any           { panic("never") }
func (c *counters) Swap(i, j int) {
	c.all[i], c.all[j] = c.all[j], c.all[i]
	c.place[c.all[i].client], c.place[c.all[j].client] = i, j
}

// set sets the count of a client, which takes the lowest place if it has none.
func (c *counters) set(client uint64, n int64) {
	i, known := c.place[client]
	switch {
	case known:
		c.all[i].n = n
	case len(c.all) < sketchSize:
		i = len(c.all)
		c.all = append(c.all, counted{client, n})
		c.place[client] = i
	default:
		i = 0
		delete(c.place, c.all[0].client)
		c.all[0] = counted{client, n}
		c.place[client] = 0
	}
	heap.Fix(c, i)
}

func (c *counters) clients() []counted { return c.all }

// spaceSaving is of A. Metwally et al., 2005.
type spaceSaving struct{ *counters }

func (s *spaceSaving) add(client uint64) {
	i, known := s.place[client]
	switch {
	case known:
		s.set(client, s.all[i].n+1)
	case len(s.all) < sketchSize:
		s.set(client, 1)
	default:
		s.set(client, s.all[0].n+1)
	}
}

// misraGries is of J. Misra and D. Gries, 1982.
type misraGries struct{ m map[uint64]int64 }

func (s *misraGries) add(client uint64) {
	if _, known := s.m[client]; known || len(s.m) < sketchSize {
		s.m[client]++
		return
	}
	for other := range s.m {
		if s.m[other]--; s.m[other] == 0 {
			delete(s.m, other)
		}
	}
}

func (s *misraGries) clients() (all []counted) {
	for client, n := range s.m {
		all = append(all, counted{client, n})
	}
	return all
}

// countMin is of G. Cormode and S. Muthukrishnan, 2005, with conservative updates and 512 KB.
type countMin struct {
	rows [4][1 << 15]uint32
	*counters
}

func (s *countMin) add(client uint64) {
	low := uint32(math.MaxUint32)
	var at [4]uint64
	for i := range at {
		at[i] = secret{uint64(i), 7}.mix(client) >> 49
		low = min(low, s.rows[i][at[i]])
	}
	low++
	for i := range at {
		s.rows[i][at[i]] = max(s.rows[i][at[i]], low)
	}
	if _, known := s.place[client]; known || len(s.all) < sketchSize || int64(low) > s.all[0].n {
		s.set(client, int64(low))
	}
}

// mix is a hash of a number that is faster than that of a key, in favor of the others.
func (s secret) mix(n uint64) uint64 {
	n = (n ^ s.k0 ^ s.k1<<32) * 0xff51afd7ed558ccd
	n = (n ^ n>>33) * 0xc4ceb9fe1a85ec53
	return n ^ n>>29
}

// heavyKeeper is of T. Yang et al., 2019, with 512 KB.
type heavyKeeper struct {
	rows [2][1 << 15]struct{ mark, n uint32 }
	*counters
}

func (s *heavyKeeper) add(client uint64) {
	mark, highest := uint32(client), uint32(0)
	_, known := s.place[client]
	for i := range s.rows {
		b := &s.rows[i][secret{uint64(i), 7}.mix(client)>>49]
		switch {
		case b.n == 0:
			b.mark, b.n = mark, 1
			highest = max(highest, 1)
		case b.mark == mark:
			b.n++
			highest = max(highest, b.n)
		case rand.Float64() < math.Pow(1.08, -float64(b.n)):
			if b.n--; b.n == 0 {
				b.mark, b.n = mark, 1
				highest = max(highest, 1)
			}
		}
	}
	if known && int64(highest) > s.all[s.place[client]].n || !known && highest > 0 && (len(s.all) < sketchSize || int64(highest) > s.all[0].n) {
		s.set(client, int64(highest))
	}
}

// BenchmarkNote is the part of a decision that this package takes, for one limit.
func BenchmarkNote(b *testing.B) {
	for _, clients := range []uint64{1, 100, 2000, 1 << 40} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) {
			a, i := newAdmission().(*admission), uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				a.add(i % clients)
				i++
			}
		})
	}
}
