package costs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

var update = flag.Bool("update", false, "write the table instead of comparing it")

const table = "costs.txt"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(redistest.Main(m))
}

// scenario is a row of the table.
type scenario struct {
	name    string
	limits  int // of one key
	callers int // at once
	keys    int // that they share
	quota   int64
	config  redisstore.Config
	listens bool // to what would end cached denials
	payer   int  // of a choice between the limits, from 1; 0 for none
	divided bool // keys are clients that divide the limit
}

// A long age, so that no slow machine has a cached denial expire.
var (
	cached   = redisstore.DenialCache{Age: time.Minute}
	uncached = redisstore.DenialCache{Disabled: true}
)

var scenarios = []scenario{
	{"one limit", 1, 1, 1, ample, redisstore.Config{}, false, 0, false},
	{"five limits", 5, 1, 1, ample, redisstore.Config{}, false, 0, false},
	{"hot key, 64 callers", 1, 64, 1, ample, redisstore.Config{}, false, 0, false},
	{"hot key, 256 callers", 1, 256, 1, ample, redisstore.Config{}, false, 0, false},
	{"64 keys, 64 callers", 1, 64, 64, ample, redisstore.Config{}, false, 0, false},
	{"256 keys, 256 callers", 1, 256, 256, ample, redisstore.Config{}, false, 0, false},
	{"five limits, 64 keys, 64 callers", 5, 64, 64, ample, redisstore.Config{}, false, 0, false},
	{"denied, not cached", 1, 1, 1, 1, redisstore.Config{DenialCache: uncached}, false, 0, false},
	{"denied", 1, 1, 1, 1, redisstore.Config{DenialCache: cached}, true, 0, false},
	{"a choice of three, the first pays", 3, 1, 1, ample, redisstore.Config{}, false, 1, false},
	{"a choice of three, the last pays", 3, 1, 1, ample, redisstore.Config{}, false, 3, false},
	{"divided", 1, 1, 1, ample, redisstore.Config{}, false, 0, true},
	{"divided, denied", 1, 1, 1, 1, redisstore.Config{}, false, 0, true},
	{"divided by 64 clients, 64 callers", 1, 64, 64, ample, redisstore.Config{}, false, 0, true},
	{"prefetched", 1, 1, 1, ample, redisstore.Config{Prefetch: redisstore.Prefetch{Fraction: 0.5, MaxAge: time.Hour}}, false, 0, false},
}

// ample is enough for all checks, and so little that no unit comes back while they are measured.
const ample = 100_000

// What a check costs is what it cost when the table was written. A smaller number fails as a greater one
// does: the table would no longer show a later loss. Not parallel: it counts the allocations of the
// process. Not under the race detector, which makes sync.Pool forget at random.
func TestAllocationsAndRoundTrips(t *testing.T) {
	race.Skip(t)
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "allocations\tround trips\tscript calls\tcommands\tbytes sent\tbytes received\t of\t")
	for _, s := range scenarios {
		fmt.Fprintln(w, s.measure(t))
	}
	_ = w.Flush()
	if *update {
		if err := os.WriteFile(table, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("checks cost\n%s\nwant\n%s\nIf that is meant: make bench-guard UPDATE=1", b.Bytes(), want)
	}
}

// measure returns the row of a scenario: what callers cost that ask once each, at once.
func (s *scenario) measure(t *testing.T) string {
	t.Helper()
	wire := newWire(t)
	limits := make([]core.Limit, s.limits)
	for i := range limits {
		quota := s.quota * int64(i+1)
		if i+1 < s.payer {
			quota = 1 // used up by the first request
		}
		limits[i] = core.Per(quota, time.Duration(i+1)*10_000*time.Hour).By(keyfuncs.Everyone()).Named("limit" + strconv.Itoa(i))
	}
	if s.divided {
		limits[0] = limits[0].Fair(core.Shares{By: keyfuncs.Header("X-Client")})
	}
	if s.payer > 0 {
		limits = []core.Limit{core.First(limits...)}
	}
	store := redisstore.New(wire.client, s.config)
	store.OnEvent(func(core.Event) {})
	l := must.Get(core.New(core.Config{Store: store, Limits: limits, Timeout: time.Minute}))(t)
	keys := make([]string, s.keys)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%07d", i)
	}
	decide := func(key string) core.Decision { return l.AllowKey(context.Background(), key, 1) }
	if s.divided {
		decide = func(key string) core.Decision { return l.Allow(&client{nil, key}) }
	}
	ask := func(key string) {
		d := decide(key)
		if d.Err != nil {
			t.Errorf("%s: %v", s.name, d.Err)
		}
	}
	if s.callers == 1 {
		for range 1000 { // loads the script, makes a key hot, fills pools
			ask(keys[0])
		}
		wire.settle(t, s.listens, func() { ask(keys[0]) })
		return s.row(wire.alone(t, func() { ask(keys[0]) }))
	}
	ask(keys[0]) // connects
	wire.together(t, s.callers, func(i int) { ask(keys[i%s.keys]) })
	wire.settle(t, false, func() {})
	before := wire.usage(t)
	wire.together(t, s.callers, func(i int) { ask(keys[i%s.keys]) })
	return s.row("", wire.usage(t).since(before))
}

// client is a request of one that divides a limit.
type client struct {
	keyfuncs.Request
	name string
}

func (*client) Context() context.Context { return context.Background() }

func (*client) Value(any) any { return nil }

func (c *client) Header(_ string, i int) (string, bool) { return c.name, i == 0 }

func (s *scenario) row(allocations string, u usage) string {
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d\t %s\t", allocations, u.trips, u.calls, u.commands, u.out, u.in, s.name)
}

// alone returns what one call of f costs, and its allocations.
func (w *wire) alone(t *testing.T, f func()) (allocations string, _ usage) {
	t.Helper()
	before := w.usage(t)
	f()
	used := w.usage(t).since(before)
	return fmt.Sprint(testing.AllocsPerRun(500, f)), used
}

// settle waits until what began with the first checks is over: the inspection of the server and, if the
// store listens, its subscription, after which it asks Redis again for denials that it has cached.
func (w *wire) settle(t *testing.T, listens bool, ask func()) {
	t.Helper()
	var last usage
	for began, same := time.Now(), 0; same < 5; time.Sleep(20 * time.Millisecond) { // nothing tells when it is over
		before := w.usage(t)
		ask()
		used := w.usage(t).since(before)
		if same++; used != last || listens && (used != usage{} || w.server.Calls(t, "subscribe") == 0) {
			same = 0
		}
		last = used
		if time.Since(began) > 2*time.Minute {
			t.Fatal("checks still cost different amounts")
		}
	}
}

// together has n callers ask at once: the first find places free, and their calls are held until all
// others wait in the queue. So what is sent does not depend on who is faster.
func (w *wire) together(t *testing.T, n int, ask func(i int)) {
	t.Helper()
	held := make(chan struct{})
	w.held.Store(&held)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { ask(i) })
		if i < places {
			waitFor(t, "redisstore.(*batch).send", i+1)
		}
	}
	waitFor(t, "redisstore.(*job).wait", n-places)
	w.held.Store(nil)
	close(held)
	all.Wait()
}

// places is how many round trips the store makes at a time.
const places = 2

// waitFor waits until n goroutines are in a function.
func waitFor(t *testing.T, function string, n int) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) { // no goroutine tells where it is
		var b strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
		found := 0
		for _, stack := range strings.Split(b.String(), "\n\n") {
			if strings.Contains(stack, function) {
				count, _, _ := strings.Cut(strings.TrimPrefix(stack, "\n"), " @")
				if i := strings.LastIndexByte(count, '\n'); i >= 0 {
					count = count[i+1:]
				}
				one, _ := strconv.Atoi(count)
				found += one
			}
		}
		if found == n {
			return
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%d goroutines are in %s, want %d", found, function, n)
		}
	}
}
