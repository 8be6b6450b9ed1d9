package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/exchange"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Whoever can write to Redis, and no instance, has published these.
func TestSnapshotsThatNoInstancePublishes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	of := func(name string, limits ...Limit) []byte {
		s := &Snapshot{Instances: []Instance{{Name: name, At: now}}, Limits: limits}
		return must.Get(s.MarshalBinary())(t)
	}
	several := Merge(
		&Snapshot{Instances: []Instance{{Name: "x", At: now}}},
		&Snapshot{Instances: []Instance{{Name: "y", At: now}}},
	)
	twice := of("twice", Limit{Name: "l", Clients: []Client{{Key: "ip:192.0.2.7"}, {Key: "ip:192.0.2.7"}}})
	long := of("long", Limit{Name: "l", Clients: make([]Client, 0)})
	for _, test := range []struct {
		name, says string
		data       [][]byte
	}{
		{"a second one of an instance", "two snapshots of the instance a", [][]byte{of("a"), of("a", Limit{Name: "forged"})}},
		{"one of two instances", "a snapshot of 2 instances", [][]byte{of("a"), must.Get(several.MarshalBinary())(t)}},
		{"one with a client twice", "a client that is there twice", [][]byte{twice, of("a")}},
		{"one that is too large", "at most 65536 are published", [][]byte{append(long, make([]byte, maxPublished)...), of("a")}},
	} {
		all, err := Published(test.data, now)
		check.Fails(t, test.name, err, test.says)
		check.All(t, test.name+": what is read", []any{len(all), all[0].Instances[0].Name, len(all[0].Limits)}, 1, "a", 0)
	}
	many := make([][]byte, 1000)
	for i := range many {
		many[i] = []byte{2}
	}
	if _, err := Published(many, now); err == nil || len(err.Error()) > 2<<10 {
		t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
	}
}

// The smallest limits that can be written take forty times their bytes in memory.
func TestPublishedSnapshotsAreOfBoundedWeight(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var data [][]byte
	for i := range 20 {
		s := &Snapshot{Instances: []Instance{{Name: fmt.Sprint("node-", i), At: now}}}
		for l := range 2000 {
			s.Limits = append(s.Limits, Limit{Name: fmt.Sprintf("%04d", l)})
		}
		data = append(data, must.Get(s.MarshalBinary())(t))
	}
	all, err := publishedWithin(data, now, 10<<20)
	check.Fails(t, "the error", err, "15 of 20 snapshots are not read: they take too much memory")
	check.Equal(t, "snapshots", len(all), 5)

	s := &Snapshot{Instances: []Instance{{Name: "a", At: now}}}
	for l := range maxLimits + 1 {
		s.Limits = append(s.Limits, Limit{Name: fmt.Sprintf("%05d", l)})
	}
	check.Fails(t, "more limits than an instance counts", new(Snapshot).UnmarshalBinary(must.Get(s.MarshalBinary())(t)), "4097 limits")
}

// Sums of what a thousand instances say never wrap round.
func TestSumsOfHugeCounts(t *testing.T) {
	t.Parallel()
	counts := Counts{Requests: 1<<63 - 1, Denied: 1<<63 - 1, WouldDeny: 1<<63 - 1}
	second := Series{Step: time.Second, Start: time.Unix(1_800_000_000, 0), Allowed: []int64{1<<63 - 1}, Denied: []int64{1<<63 - 1}, WouldDeny: []int64{0}}
	var all []*Snapshot
	for i := range 2000 {
		s := &Snapshot{Uncounted: 1<<63 - 1, Instances: []Instance{{Name: fmt.Sprint(i), At: time.Now()}}, Limits: []Limit{{
			Name: "l", Clients: []Client{{Key: "ip:192.0.2.7", Minute: counts, Hour: counts}}, Rates: Rates{second, Series{Step: time.Minute}},
			Use: Use{level: 40, ids: []uint64{uint64(i % 200)}, sizes: []int64{1<<63 - 1}},
		}}}
		var back Snapshot
		data := must.Get(s.MarshalBinary())(t)
		must.OK(t, back.UnmarshalBinary(data))
		all = append(all, &back)
	}
	s := Merge(all...)
	l := s.Limits[0]
	c := l.Clients[0]
	for i, n := range []int64{s.Uncounted, c.Minute.Requests, c.Minute.denials(), c.Hour.denials(), l.Rates.Seconds.Allowed[0], l.Use.Clients, l.Use.Peaks[0]} {
		if n <= 0 || n > 2*maxCount {
			t.Errorf("sum %d is %d", i, n)
		}
	}
}

// An instance whose clock is off by hours hid what this one had counted, if there were two of them; its clients
// were seen, and denied, in the future.
func TestAnInstanceWhoseClockIsOff(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{3 * time.Hour, -3 * time.Hour, 300 * 24 * time.Hour, 5 * time.Second} {
		shared := new(exchange.Memory)
		mine, other := newTracker(Config{Exchange: shared, Instance: "mine"}), newTracker(Config{Exchange: shared, Instance: "other"})
		other.clock.Add(int64(off / (time.Second / ticksPerSecond)))
		for _, heavy := range []*Tracker{mine, other} {
			must.OK(t, heavy.agree(t.Context()))
			l := newLimiter(t, heavy, core.PerHour(10).Named("api"))
			for range 5 {
				ask(l, "user:"+heavy.Instance(), 12)
				heavy.settle(tick(heavy.clock.Load()))
				heavy.clock.Add(ticksPerSecond)
			}
			heavy.settle(tick(heavy.clock.Load()))
		}
		must.OK(t, other.publish(t.Context()))
		s := must.Get(mine.Collect(t.Context()))(t)
		l := s.Limit("api")
		sum := int64(0)
		for i := range l.Rates.Seconds.Allowed {
			sum += l.Rates.Seconds.Allowed[i] + l.Rates.Seconds.Denied[i]
		}
		want := int64(120 - 24) // the last second may be missing
		if off == 5*time.Second {
			want = 60 - 12 // by so little nothing is moved, and seconds that one of them has not seen are left out
		}
		if sum < want || sum > 120 {
			t.Errorf("off by %v: %d requests in the last seconds, want %d to 120", off, sum, want)
		}
		now := time.UnixMilli(mine.clock.Load() * 100)
		if end := l.Rates.Seconds.end(); end.After(now.Add(time.Second)) || now.Sub(end) > 15*time.Second {
			t.Errorf("off by %v: rates end at %v, and it is %v", off, end, now)
		}
		for _, c := range l.Clients {
			if c.Seen.After(now.Add(maxAhead)) || c.Denial.At.After(now.Add(maxAhead)) || now.Sub(c.Seen) > maxBehind {
				t.Errorf("off by %v: %s was seen %v, and denied %v; it is %v", off, c.Key, c.Seen, c.Denial.At, now)
			}
		}
		if at := s.Instances[1].At; (off > time.Minute || off < -time.Minute) && !strings.Contains(at.Sub(now).Round(time.Hour).String(), off.Round(time.Hour).String()) {
			t.Errorf("off by %v: the snapshot is of %v, so nobody sees that the clock is off", off, at)
		}
	}
}
