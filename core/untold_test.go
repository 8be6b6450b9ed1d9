package core_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// leaving is a store in memory that can be out, or refuse to charge. It keeps less of its calls than
// flaky does, so benchmarks can use it.
type leaving struct {
	intercepted
	down, refuses atomic.Bool
	calls         atomic.Int64
}

func newLeaving() *leaving {
	s := new(leaving)
	s.intercepted = intercept(func(_ context.Context, call string, _ []core.Check) error {
		if call == "Take" || call == "Charge" {
			s.calls.Add(1)
		}
		if call == "Take" && s.down.Load() || call == "Charge" && s.refuses.Load() {
			return errDown
		}
		return nil
	})
	s.OnEvent(func(core.Event) {}) // or each test would log
	return s
}

// After an outage, what it cost to tell the store is over with the last key that was told, and not
// with the longest window.
func TestAKeyIsToldOnce(t *testing.T) {
	t.Parallel()
	month := core.Per(1000, 30*24*time.Hour).FixedWindow().By(keyfuncs.Everyone())
	store := newLeaving()
	store.down.Store(true)
	l := limiterOn(t, store, month.Named("a"), month.Named("b").OnOutage(core.Allow), month.Named("c"))
	ctx := context.Background()
	for _, key := range []string{"first", "second"} {
		l.AllowKey(ctx, key, 1)
	}
	if !l.Owes() {
		t.Fatal("nothing is noted of what was granted")
	}
	store.down.Store(false)
	for n, key := range []string{"other", "first", "first", "other", "second", "second", "other"} {
		before := store.calls.Load()
		l.AllowKey(ctx, key, 1)
		want := int64(1)
		if n == 1 || n == 4 {
			want = 2 // and tells
		}
		check.Equal(t, fmt.Sprintf("calls of the store for request %d, of %q", n, key), store.calls.Load()-before, want)
	}
	if l.Owes() {
		t.Error("all keys were told, and something is noted still")
	}
	d := l.AllowKey(ctx, "first", 0)
	check.Equal(t, "left of 1000, after one request in the outage and two later", d.Results()[0].Remaining, 997)
}

// A charge that fails is told by the next request.
func TestAKeyIsToldUntilTheStoreIsCharged(t *testing.T) {
	t.Parallel()
	store := newLeaving()
	store.down.Store(true)
	l := limiterOn(t, store, core.PerHour(10).By(keyfuncs.Everyone()))
	ctx := context.Background()
	l.AllowKey(ctx, "k", 3)
	store.down.Store(false)
	store.refuses.Store(true)
	for range 3 {
		check.Equal(t, "while the store refuses charges", l.AllowKey(ctx, "k", 1).Reason, core.ReasonWithinLimit)
	}
	store.refuses.Store(false)
	wantDecision(t, "the request that tells", l.AllowKey(ctx, "k", 1), true, core.ReasonWithinLimit, 6)
	wantDecision(t, "the next", l.AllowKey(ctx, "k", 1), true, core.ReasonWithinLimit, 2)
	if l.Owes() {
		t.Error("something is noted still")
	}
}

// What was told of a window that began with first use says nothing of the next one, which another outage begins: what
// the store was charged of the first still counts there.
func TestTheNextWindowOfAnOutageIsToldToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLeaving()
		l := limiterOn(t, store, core.PerHour(10).FromFirstUse().By(keyfuncs.Everyone()))
		used := func(d core.Decision) int64 { return 10 - d.Results()[0].Remaining }
		outage := func(granted int64, lasts time.Duration) {
			store.down.Store(true)
			l.AllowKey(t.Context(), "k", granted)
			time.Sleep(lasts)
			store.down.Store(false)
			l.AllowKey(t.Context(), "k", 0)
		}
		outage(4, 30*time.Minute)
		check.Equal(t, "used of the first window, which the store begins when it is told", used(l.AllowKey(t.Context(), "k", 0)), 4)
		time.Sleep(31 * time.Minute) // the local window is over, and that of the store is not
		outage(3, time.Minute)
		check.Equal(t, "used, with what another outage has granted", used(l.AllowKey(t.Context(), "k", 0)), 4+3)
		check.Equal(t, "something is noted still", l.Owes(), false)
	})
}

// mute is a store that charges, and is not heard.
type mute struct {
	*leaving
	unheard, undone atomic.Bool
}

func (s *mute) Charge(ctx context.Context, checks []core.Check, results []core.Result) error {
	if s.undone.Load() {
		return &store.Undone{Checks: []int{0}, Err: errDown}
	}
	if err := s.leaving.Charge(ctx, checks, results); err != nil || !s.unheard.Load() {
		return err
	}
	return errDown
}

// A charge of a day or a month that the store may have made is not made again: somebody pays for it. One that it certainly has
// not made is. For other limits a charge too many is forgotten soon, and one too few lets too much through.
func TestAMonthIsToldOnceIfTheStoreIsNotHeard(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit core.Limit
		left  int64 // of 100, after 3 units in the outage and four requests of 1 later, of which the first three tell and are not heard
	}{
		"month": {core.PerMonth(100, time.UTC), 100 - 3 - 4},
		"day":   {core.PerCalendarDay(100, time.UTC), 100 - 3 - 4},
		"hour":  {core.Per(100, time.Hour).FixedWindow(), 100 - 4*3 - 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &mute{leaving: newLeaving()}
			s.down.Store(true)
			l := limiterOn(t, s, tt.limit.By(keyfuncs.Everyone()))
			l.AllowKey(t.Context(), "k", 3)
			s.down.Store(false)
			s.undone.Store(true)
			l.AllowKey(t.Context(), "k", 0) // the store has certainly not charged anything
			s.undone.Store(false)
			s.unheard.Store(true)
			for range 3 {
				l.AllowKey(t.Context(), "k", 1)
			}
			s.unheard.Store(false)
			l.AllowKey(t.Context(), "k", 1)
			d := l.AllowKey(t.Context(), "k", 0)
			check.Equal(t, "left of 100", d.Results()[0].Remaining, tt.left)
			check.Equal(t, "something is noted still", l.Owes(), false)
		})
	}
}

// More keys than can be noted are looked up, until their grants have stopped to count.
func TestMoreKeysThanCanBeNoted(t *testing.T) {
	t.Parallel()
	rule := must.Get(core.PerHour(1).Rule())(t)
	var u core.Untold
	const keys, lasts = core.UntoldKeys * 5 / 4, time.Hour
	key := func(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }
	looked := func(now time.Duration) (n int) {
		for k := range keys {
			if u.Has(&rule, key(k)) {
				u.Tell(&rule, key(k), int64(now), func() int64 { n++; return 0 })
			}
		}
		return n
	}
	for k := range keys {
		u.Add(&rule, key(k), 0, lasts)
	}
	check.Equal(t, "keys looked up", looked(lasts-1), keys)
	if n := looked(lasts); n != 0 || u.Any() {
		t.Errorf("%d keys were looked up once nothing counted any more", n)
	}
	for k := range core.UntoldKeys / 2 {
		u.Add(&rule, key(k), int64(lasts), 2*lasts)
	}
	if n := looked(2 * lasts); n != core.UntoldKeys/2 || u.Any() {
		t.Errorf("%d keys were looked up in the next outage, of %d", n, core.UntoldKeys/2)
	}
}

// Whatever comes between, each local grant is told, once.
func TestGrantsThatComeWhileOthersAreTold(t *testing.T) {
	t.Parallel()
	const quota, keys = 1_000_000, 8
	store := newLeaving()
	l := limiterOn(t, store, core.Per(quota, 1000*time.Hour).FixedWindow().By(keyfuncs.Everyone()))
	ctx := context.Background()
	rounds := 1000
	if testing.Short() {
		rounds = 300
	}
	var granted [keys]atomic.Int64
	atOnce(16, func(g int) {
		for n := range rounds {
			switch k := (n*7 + g) % keys; {
			case n%11 == g%11:
				store.down.Store(!store.down.Load())
			case n%13 == g%13:
				store.refuses.Store(!store.refuses.Load())
			default:
				if d := l.AllowKey(ctx, strconv.Itoa(k), 1); d.Allowed {
					granted[k].Add(1)
				}
			}
		}
	})
	store.down.Store(false)
	store.refuses.Store(false)
	for k := range granted {
		l.AllowKey(ctx, strconv.Itoa(k), 0) // tells
		d := l.AllowKey(ctx, strconv.Itoa(k), 0)
		check.Equal(t, fmt.Sprintf("units used of key %d, those that were granted", k), quota-d.Results()[0].Remaining, granted[k].Load())
	}
	if l.Owes() {
		t.Error("all keys were told, and something is noted still")
	}
}

// BenchmarkAfterAnOutage shows what a check costs once a store answers again: before any outage,
// after one in which other keys were granted something, and after one in which this key was.
func BenchmarkAfterAnOutage(b *testing.B) {
	for _, c := range []struct {
		name  string
		other int
		this  bool
	}{{"before", 0, false}, {"told", 0, true}, {"others untold", 10_000, true}, {"more untold than can be noted", 200_000, true}} {
		b.Run(c.name, func(b *testing.B) {
			store := newLeaving()
			l := limiterOn(b, store, core.Per(1_000_000_000_000, 30*24*time.Hour).By(keyfuncs.Everyone()))
			ctx := context.Background()
			store.down.Store(true)
			for n := range c.other {
				l.AllowKey(ctx, fmt.Sprint("other", n), 1)
			}
			if c.this {
				l.AllowKey(ctx, "this", 1)
			}
			store.down.Store(false)
			l.AllowKey(ctx, "this", 1)
			b.ReportAllocs()
			b.SetParallelism(128)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if d := l.AllowKey(ctx, "this", 1); !d.Allowed {
						b.Error(d.Reason)
						return
					}
				}
			})
		})
	}
}
