package faults_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

// together is how many tests run at a time, at least: most of them wait for servers, or for time-outs.
const together = 8

func TestMain(m *testing.M) {
	flag.Parse()
	if runtime.GOMAXPROCS(0) < together && flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := flag.Set("test.parallel", strconv.Itoa(together)); err != nil {
			panic(err)
		}
	}
	go late.watch()
	os.Exit(redistest.Main(m))
}

// figure prints a measured value, in the form that `make faults` reads.
func figure(tb testing.TB, what string, value any) {
	tb.Helper()
	switch v := value.(type) {
	case time.Duration:
		value = rounded(v)
	case float64:
		value = fmt.Sprintf("%.2f", v)
	}
	tb.Logf("figure\t%s\t%s\t%v", tb.Name(), what, value)
}

// rounded leaves about three digits.
func rounded(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// atOnce calls f with each number below n, each in a goroutine of its own, and returns when all have.
func atOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// patience is how long a test waits for something that must happen, on the busiest machine.
const patience = 2 * time.Minute

// eventually waits until done reports true, and returns how long it took.
func eventually(tb testing.TB, what string, done func() bool) time.Duration {
	tb.Helper()
	start := time.Now()
	if !soon(done) {
		tb.Fatalf("waited %v for %s", patience, what)
	}
	return time.Since(start)
}

// soon waits until done reports true, for patience at most, and returns whether it did.
func soon(done func() bool) bool {
	for start := time.Now(); !done(); time.Sleep(2 * time.Millisecond) { // nothing tells when to look again
		if time.Since(start) > patience {
			return false
		}
	}
	return true
}

// atMost is a limit that does not refill while a test runs: n units in 30 days.
func atMost(n int64, name string) core.Limit { return atMostOf(n, name, keyfuncs.Everyone()) }

// atMostOf is atMost for each key.
func atMostOf(n int64, name string, key keyfuncs.Func) core.Limit {
	return core.Per(n, 30*24*time.Hour).FixedWindow().By(key).Named(name)
}

// newLimiter returns a limiter, or ends the test.
func newLimiter(tb testing.TB, config core.Config) *core.Limiter {
	tb.Helper()
	return must.Get(core.New(config))(tb)
}

// newPatient returns a limiter whose checks have so much time that only an answer ends them.
func newPatient(tb testing.TB, store core.Store, limits ...core.Limit) *core.Limiter {
	tb.Helper()
	return newLimiter(tb, core.Config{Store: store, Timeout: patience, Limits: limits})
}

// remaining returns what a key has left under the limiter's first limit. The limiter has to be one
// that is patient.
func remaining(tb testing.TB, l *core.Limiter, key string) int64 {
	tb.Helper()
	d, err := l.Peek(context.Background(), key, 1)
	if err != nil {
		tb.Fatalf("peek at %q: %v", key, err)
	}
	return d.Results()[0].Remaining
}

// classOf returns the class of a decision's error, or "".
func classOf(d core.Decision) store.Class {
	var e *store.Error
	if errors.As(d.Err, &e) {
		return e.Class
	}
	return ""
}

// audience records a store's events.
type audience struct {
	mu     sync.Mutex
	events []core.Event // Guarded by mu.
}

// listen records the store's events from now on.
func listen(store core.Store) *audience {
	a := new(audience)
	store.Registry().OnEvent(func(core.Event) {}) // keeps the log quiet; it does not hear of each change
	store.Registry().Watch(func(e core.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.events = append(a.events, e)
	})
	return a
}

// all returns the events, in order.
func (a *audience) all() []core.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// of returns the events of a kind, in order.
func (a *audience) of(kind store.EventKind) []core.Event {
	return slices.DeleteFunc(a.all(), func(e core.Event) bool { return e.Kind != kind })
}

// count returns how many events of a kind there were.
func (a *audience) count(kind store.EventKind) int { return len(a.of(kind)) }

// atLeast waits for n events of a kind, and returns how many there are. An event is
// reported by the goroutine that caused it, so others can see the effect before.
func (a *audience) atLeast(n int, kind store.EventKind) int {
	soon(func() bool { return a.count(kind) >= n })
	return a.count(kind)
}

// heard reports whether there is an event of a kind and class, now or in a moment.
func (a *audience) heard(kind store.EventKind, class store.Class) bool {
	return soon(func() bool {
		return slices.ContainsFunc(a.of(kind), func(e core.Event) bool { return e.Class == class })
	})
}

// String lists the events, for failure messages.
func (a *audience) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.events) == 0 {
		return "none"
	}
	var b strings.Builder
	for _, e := range a.events {
		fmt.Fprintf(&b, "\n\t%v class=%q node=%q count=%d after=%v err=%v", e.Kind, e.Class, e.Node, e.Count, e.Duration, e.Err)
	}
	return b.String()
}

// quantile returns the q-quantile of durations, which it sorts.
func quantile(durations []time.Duration, q float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	return durations[min(int(q*float64(len(durations))), len(durations)-1)]
}
