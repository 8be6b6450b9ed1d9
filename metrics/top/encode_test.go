package top

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// filled returns a tracker that has counted some limits and clients.
func filled(tb testing.TB, limits, clients int) *Tracker {
	tb.Helper()
	heavy := newTracker(Config{Instance: "node"})
	heavy.state.Store(newState([]byte("0123456789abcdef"))) // by chance, one sample of 30 in 40 is far off
	random := rand.New(rand.NewPCG(1, 1))
	for i := range limits {
		limit := core.PerMinute(20).Named(fmt.Sprint("limit-", i))
		if i%2 == 0 {
			limit = limit.Shadow()
		}
		l := newLimiter(tb, heavy, limit)
		for range 4 * clients {
			ask(l, fmt.Sprintf("ip:192.0.%d.1", random.IntN(clients)), 1+random.IntN(10))
			if random.IntN(20) == 0 {
				heavy.clock.Add(1)
			}
		}
		heavy.settle(tick(heavy.clock.Load()))
	}
	heavy.clock.Add(30)
	return heavy
}

func TestSnapshotsAreEncoded(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Snapshot{
		"one process":   filled(t, 3, 100).Snapshot(),
		"two processes": Merge(filled(t, 2, 20).Snapshot(), filled(t, 3, 5).Snapshot()),
		"no limit":      newTracker(Config{}).Snapshot(),
	} {
		data := must.Get(s.MarshalBinary())(t)
		var back Snapshot
		must.OK(t, back.UnmarshalBinary(data))
		again, err := back.MarshalBinary()
		if err != nil || !bytes.Equal(data, again) {
			t.Errorf("%s: encoded again it is different: %v", name, err)
		}
		for i := range s.Limits { // what is rounded, and nil or empty
			for j := range s.Limits[i].Clients {
				if c, d := &s.Limits[i].Clients[j], back.Limits[i].Clients[j]; math.Abs(c.Used-d.Used) > 1e-6 {
					t.Errorf("%s: used %v, decoded %v", name, c.Used, d.Used)
				} else {
					c.Used = d.Used
				}
			}
		}
		if want, got := fmt.Sprintf("%+v", *s), fmt.Sprintf("%+v", back); want != got {
			at := 0
			for at < min(len(want), len(got)) && want[at] == got[at] {
				at++
			}
			t.Errorf("%s: encoded …%.300s\ndecoded …%.300s", name, want[max(at-100, 0):], got[max(at-100, 0):])
		}
	}
	if _, err := new(Snapshot).MarshalBinary(); err == nil {
		t.Error("a snapshot of no instance is encoded")
	}
}

// What is published has a bounded size, and still the first clients of each list.
func TestPublishedSnapshotsAreBounded(t *testing.T) {
	t.Parallel()
	heavy := filled(t, 12, 600)
	whole := heavy.Snapshot()
	for _, most := range []int{maxPublished, 8000, 500} {
		data := heavy.snapshot(100, maxSampled).marshalWithin(most)
		if len(data) > most {
			t.Fatalf("%d bytes, want at most %d", len(data), most)
		}
		var s Snapshot
		must.OK(t, s.UnmarshalBinary(data))
		if most == 500 {
			continue // there may be no room for all limits
		}
		check.Equal(t, fmt.Sprintf("limits in %d bytes", most), len(s.Limits), 12)
		for i := range s.Limits {
			l, w := &s.Limits[i], &whole.Limits[i]
			check.All(t, fmt.Sprint(most, " bytes: the first clients"), []any{l.Nearest(1)[0].Key, l.MostDenied(1)[0].Key, l.Busiest(1)[0].Key}, w.Nearest(1)[0].Key, w.MostDenied(1)[0].Key, w.Busiest(1)[0].Key)
			if off := math.Abs(float64(l.Use.Clients)/float64(w.Use.Clients) - 1); off > 0.6 {
				t.Errorf("%d bytes: %d clients, want about %d", most, l.Use.Clients, w.Use.Clients)
			}
		}
		t.Logf("%d bytes of at most %d: %d clients of each limit, %d in its sample", len(data), most, len(s.Limits[0].Clients), len(s.Limits[0].Use.Peaks))
	}
}

func TestBrokenSnapshotsAreErrors(t *testing.T) {
	t.Parallel()
	good := must.Get(filled(t, 2, 20).Snapshot().MarshalBinary())(t)
	cases := map[string][]byte{
		"nothing":                  nil,
		"another version":          {2},
		"no instance":              {1, 0, 0, 0},
		"a name that is none":      append([]byte{1, 0, 1, 3}, "a\nb\x00\x00"...),
		"more than there is":       {1, 0, 1, 1, 'a', 0, 0, 0, 0, 0, 0, 200, 1},
		"a node with a line break": {1, 0, 1, 1, 'a', 0, 0, 0, 0, 0, 1, 1, '\n', 0, 0, 0},
		"too many breakers":        append([]byte{1, 0, 1, 1, 'a', 0, 0, 0, 0, 0, 9}, make([]byte, 28)...),
		"unknown health":           {1, 0, 1, 1, 'a', 0, 2, 0, 0, 0, 0, 0},
		"too many bytes":           append(bytes.Clone(good), 0),
		"a key with a line break":  bytes.Replace(good, []byte("ip:192"), []byte("ip:\n92"), 1),
		"a megabyte":               make([]byte, maxEncoded+1),
	}
	for i := range len(good) {
		cases[fmt.Sprint("the first ", i, " bytes")] = good[:i]
	}
	for name, data := range cases {
		s := Snapshot{Uncounted: 7}
		if err := s.UnmarshalBinary(data); err == nil || !strings.HasPrefix(err.Error(), "weblimit: can't decode a snapshot of top clients: ") {
			t.Errorf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(s, Snapshot{Uncounted: 7}) {
			t.Errorf("%s: the snapshot was changed", name)
		}
	}
}

// Any bytes are a snapshot or an error, take memory in proportion to them, and can be merged.
func FuzzUnmarshal(f *testing.F) {
	for _, clients := range []int{1, 50} {
		data := must.Get(filled(f, 2, clients).Snapshot().MarshalBinary())(f)
		f.Add(data)
	}
	f.Add([]byte{1, 0, 1, 1, 'a', 0, 1, 1, 0, 0, 1, 1, 'b', 1, 0, 0})
	mine := filled(f, 3, 30).Snapshot()
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var s Snapshot
		err := s.UnmarshalBinary(data)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(100*len(data)+100_000) {
			t.Fatalf("%d bytes take %d", len(data), grown)
		}
		if err != nil {
			return
		}
		merged := Merge(mine, &s, nil)
		for i := range merged.Limits {
			l := &merged.Limits[i]
			l.Nearest(3)
			l.MostDenied(3)
			l.Busiest(3)
			l.Use.Suggest(0.995)
			for _, series := range []Series{l.Rates.Seconds, l.Rates.Minutes} {
				if len(series.Allowed) > seriesSteps || len(series.Allowed) != len(series.Denied) || len(series.Allowed) != len(series.WouldDeny) {
					t.Fatalf("a series of %d steps", len(series.Allowed))
				}
			}
			for _, c := range l.Clients {
				if c.Minute.Requests < 0 || c.Hour.Denied < 0 || c.Used < 0 || c.Used > 1 || c.UsedAt.After(time.Now().AddDate(300, 0, 0)) {
					t.Fatalf("a client %+v", c)
				}
			}
		}
		must.Do(s.MarshalBinary())(t)
	})
}
