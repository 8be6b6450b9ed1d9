package prove

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

// setClock is a server whose clock the test sets.
type setClock struct {
	*redistest.Server
	rdb   *redis.Client
	clock *redistest.Clock
	ahead int64 // microseconds ahead of the machine's clock
}

func startWithClock(t *testing.T) *setClock {
	t.Helper()
	c := &setClock{}
	c.Server, c.clock = redistest.StartWithClock(t)
	c.rdb = c.Client(t)
	return c
}

// set sets the clock, and returns the operation that this is.
func (c *setClock) set(tb testing.TB, ahead int64) *operation {
	tb.Helper()
	o := &operation{ID: -1, Client: everybody, Kind: clockTo, Ended: true, Call: monotonic(), Micros: time.Now().UnixMicro() + ahead}
	was := c.ahead
	c.clock.SetAhead(tb, time.Duration(ahead)*time.Microsecond)
	c.ahead = ahead
	o.From = time.Now().UnixMicro() + was + 1
	if err := c.rdb.Ping(tb.Context()).Err(); err != nil { // no command takes an old time after this
		tb.Fatal(err)
	}
	o.Return = monotonic()
	return o
}

// TestClock sets the server's clock forwards and back while nothing is under way.
func TestClock(t *testing.T) {
	c := startWithClock(t)
	processes := startAll(t, order{Network: c.Network(), Addr: c.Addr()})
	windows := []time.Duration{20 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 240 * time.Hour}
	each(t, 0.08, func(seed uint64, count *tally) *history {
		h := newHistory("clock", seed, windows...)
		r := rand.New(rand.NewPCG(seed, 5))
		h.job.Keys, h.job.Each, h.repeats = 1, 3, byNone
		// Slots have the time of their entry and not of the answer; the days of a calendar are those of the
		// processes if their clocks are days away from the server's.
		h.job.Limits = slices.DeleteFunc(h.job.Limits, func(l limit) bool { return l.Algorithm == concurrency || l.Algorithm == calendarDay })
		if len(h.job.Limits) == 0 {
			h.job.Limits = []limit{{Name: "l0", Algorithm: slidingLog, Quota: 5, Window: time.Minute.Microseconds()}}
		}
		ahead := int64(0)
		h.operations = append(h.operations, c.set(t, ahead))
		for phase := range 4 {
			if phase > 0 {
				step := pick(r, windows...).Microseconds()
				step = r.Int64N(2*step) + pick(r, 0, step/2, step)
				if r.IntN(2) == 0 {
					count.note("clock set forwards", 1)
				} else {
					count.note("clock set back", 1)
					step = -step
				}
				ahead += step
				h.operations = append(h.operations, c.set(t, ahead))
			}
			h.job.Seed, h.job.Ahead = r.Uint64(), ahead
			together(t, h, processes)
		}
		return h
	})
}
