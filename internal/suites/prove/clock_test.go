package prove

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// setClock is a server whose clock the test sets.
type setClock struct {
	*redistest.Server
	rdb   *redis.Client
	file  *os.File
	ahead int64 // microseconds ahead of the machine's clock
}

// startWithClock starts a server with testdata/clock.c, which needs a C compiler and Linux.
func startWithClock(t *testing.T) *setClock {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if runtime.GOOS != "linux" || err != nil {
		t.Skip("no server whose clock can be set: that needs Linux and a C compiler named cc")
	}
	library := filepath.Join(t.TempDir(), "clock.so")
	if out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-O2", "-o", library, "testdata/clock.c").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", compiler, err, out)
	}
	c := &setClock{}
	if c.file, err = os.Create(filepath.Join(t.TempDir(), "clock")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.file.Close() })
	c.write(t, 0)
	// The server inherits them. No test of this package is parallel.
	t.Setenv("WEBLIMIT_CLOCK", c.file.Name())
	t.Setenv("LD_PRELOAD", library)
	c.Server = redistest.Start(t)
	if err := os.Unsetenv("LD_PRELOAD"); err != nil { // Setenv puts back what was there
		t.Fatal(err)
	}
	c.rdb = c.Client(t)
	c.write(t, int64(time.Hour/time.Microsecond))
	now := must.Get(c.rdb.Time(t.Context()).Result())(t)
	if d := time.Until(now); d < 59*time.Minute || d > time.Hour {
		t.Skipf("this redis-server takes the time from elsewhere than clock_gettime and gettimeofday: it is %v ahead, and not an hour", d)
	}
	return c
}

func (c *setClock) write(tb testing.TB, ahead int64) {
	tb.Helper()
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(ahead))
	must.Do(c.file.WriteAt(b[:], 0))(tb)
	c.ahead = ahead
}

// set sets the clock, and returns the operation that this is.
func (c *setClock) set(tb testing.TB, ahead int64) *operation {
	tb.Helper()
	o := &operation{ID: -1, Client: everybody, Kind: clockTo, Ended: true, Call: monotonic(), Micros: time.Now().UnixMicro() + ahead}
	was := c.ahead
	c.write(tb, ahead)
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
