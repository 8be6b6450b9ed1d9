package top

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/race"
)

// Ten million different keys (in a long run, else three) take less than 64 MB, and the first 100 clients are
// found with an error below 5 %, whether requests follow Zipf's law or an attacker changes keys:
//
//	LONG_TESTS=1 go test ./metrics/top -run TenMillion -v
func TestTenMillionKeys(t *testing.T) {
	race.Skip(t)
	n, most := long.Rounds(3_000_000, 10_000_000), long.Rounds(0.07, 0.05) // of fewer requests, counts are less exact
	counts := make([]uint32, n+realClients)                                // before memory is measured
	for i, name := range []string{"Zipf", "flat Zipf", "rotating keys", "rotating keys first", "rotating keys, 5 times each"} {
		t.Run(name, func(t *testing.T) {
			clear(counts)
			stream := streams(n)[i]
			before := heapInUse()
			a := newAdmission().(*admission)
			one := func(client uint64) {
				counts[client]++
				a.add(client)
			}
			for i := range n {
				if i < n/2 && i%2 == 0 { // each key at least once
					one(uint64(i) * 999_983 % uint64(n))
					one(uint64(i+1) * 999_983 % uint64(n))
				}
				one(min(stream.next(i), uint64(len(counts))-1))
			}
			grown := heapInUse() - before
			var want []counted
			for client, n := range counts {
				if n > 20 {
					want = append(want, counted{uint64(client), int64(n)})
				}
			}
			found, mean, worst := quality(first(want, 100), a.clients())
			t.Logf("%.0f %% found, mean error %.3f %%, worst %.2f %%, %.1f MB", 100*found, 100*mean, 100*worst, float64(grown)/1e6)
			if found < 0.98 || worst > most {
				t.Errorf("found %.0f %% of the first 100 with an error up to %.1f %%, want 98 %% and %.0f %%", 100*found, 100*worst, 100*most)
			}
			if grown > 64<<20 {
				t.Errorf("it takes %d bytes, want at most 64 MB", grown)
			}
			runtime.KeepAlive(a)
		})
	}
	runtime.KeepAlive(counts)
}

// heapInUse returns how many bytes are in use.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Clients that make few requests stay on the lists of the nearest and of the most denied while an
// attacker changes keys, before and after: no number of new keys pushes them out.
func TestAFloodOfKeysHidesNobody(t *testing.T) {
	t.Parallel()
	n := 1_000_000
	if race.Enabled {
		n /= 10
	}
	a := newAdmission().(*admission)
	rule := a.decision.Rule
	now := tick(17_000_000_000)
	flood := func(from int) {
		for i := range n {
			a.add(uint64(realClients + from + i))
		}
	}
	one := func(key string, result core.Result) {
		d := decision{LimitResult: &core.LimitResult{Rule: rule, Result: result}, key: []byte(key), cost: 1}
		a.limit.note(&d, a.secret.hash(d.key), now)
	}
	flood(0)
	for i := range 20 {
		one(fmt.Sprint("near:", i), core.Result{Allowed: true, Remaining: rule.Burst / 20})
		one(fmt.Sprint("denied:", i), core.Result{Remaining: rule.Burst / 4 * 3, RetryAfter: 1})
	}
	flood(n)
	l := a.limit.snapshot(now, 100, 0)
	var near, most []string
	for _, c := range l.Nearest(20) {
		near = append(near, c.Key)
	}
	for _, c := range l.MostDenied(100) {
		most = append(most, c.Key)
	}
	for i := range 20 {
		if key := fmt.Sprint("near:", i); !slices.Contains(near, key) {
			t.Errorf("%s is not among the nearest: %q", key, near)
		}
		if key := fmt.Sprint("denied:", i); !slices.Contains(most, key) {
			t.Errorf("%s is not among the most denied: %q", key, most)
		}
	}
}

// Who was busy hours ago makes room.
func TestStrengthFades(t *testing.T) {
	t.Parallel()
	a := newAdmission().(*admission)
	at := func(now tick, key string, n int) {
		for range n {
			a.decision.key = []byte(key)
			a.limit.note(&a.decision, a.secret.hash(a.decision.key), now)
		}
	}
	const start = tick(17_000_000_000)
	for i := range 4 * sketchSize {
		at(start, fmt.Sprint("old:", i), 50)
	}
	for i := range 100 {
		for range 40 {
			at(start+2*hour, fmt.Sprint("new:", i), 1)
		}
	}
	l := a.limit.snapshot(start+2*hour, 100, 0)
	for _, c := range l.Busiest(100) {
		if c.Key[:4] != "new:" || c.Minute.Requests < 30 {
			t.Fatalf("%s is among the busiest, with %+v", c.Key, c.Minute)
		}
	}
}

// A known client costs no allocation, denied or not, and an unknown one in a flood none either.
func TestDecisionsAllocateNothing(t *testing.T) {
	race.Skip(t)
	a := newAdmission().(*admission)
	for i := range uint64(100_000) {
		a.add(i)
	}
	i := uint64(0)
	check.Equal(t, "allocations of a known client", testing.AllocsPerRun(1000, func() { a.add(i % 7) }), 0)
	a.decision.Allowed = false
	check.Equal(t, "allocations of a denied client", testing.AllocsPerRun(1000, func() { a.add(3); i++ }), 0)
	a.decision.Allowed = true
	i = 1 << 40
	check.Equal(t, "allocations of new clients in a flood", testing.AllocsPerRun(1000, func() { a.add(i); i++ }), 0)
}
