package regions

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// process is a process of a region, and what its journal has.
type process struct {
	*child.Process
	name   string
	path   string // of its journal
	region *region
	killed bool
	halted bool // it is stopped

	file      *os.File
	rest      []byte // of the journal, without an end of line
	decisions []decision
	leases    []lease           // that home has charged
	refunds   []refund          // of leases
	asked     map[string]*lease // by operation
	stats     []stats
}

// stats are the numbers of a process's store at a time.
type stats struct {
	at int64
	regional.Counts
}

func (p *process) noteStats(text []byte) error {
	var s stats
	at, numbers, _ := strings.Cut(string(text), " ")
	if _, err := fmt.Sscan(at, &s.at); err != nil {
		return err
	}
	err := json.Unmarshal([]byte(numbers), &s.Counts)
	p.stats = append(p.stats, s)
	return err
}

// region is a region: its Redis, and the way to home.
type region struct {
	number    int
	server    *redistest.Server
	clock     *redistest.Clock // of the server, if the world has clocks
	proxy     *redistest.Proxy // to home; nil in the home region
	processes []*process       // that run
}

func (r *region) String() string { return fmt.Sprint("r", r.number) }

// needs is what a fault needs of its world.
type needs struct {
	apart  bool // home is a server of its own, and not that of the first region
	keeps  bool // home has its data on disk, and can save it
	clocks bool // the clocks of all servers can be set
	most   int  // regions that there may be; defaults to those that there are
}

// usualDelay is how long an answer from home takes.
const usualDelay = 40 * time.Millisecond

// world is several regions around a home.
type world struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand
	order  order
	dir    string

	home      *redistest.Server
	saved     string // path of what home saves
	homeClock *redistest.Clock
	regions   []*region
	processes []*process // all that ever ran

	events []string
	losses []loss
	jumps  []jump
	rolled [][2]int64 // from when to when processes had different numbers
	told   map[string]bool
}

// loss is a time at which a server has lost data.
type loss struct {
	region *region // nil for home
	began  int64   // when it had all of it
	at     int64   // when it had lost it
	since  int64   // what was done before is not lost
}

// jump is a clock that was set. Clocks are ahead of the machine's, or behind if that is negative.
type jump struct {
	region   *region // nil for home
	from, to time.Duration
	at       int64
}

// by returns how far it was set.
func (j *jump) by() time.Duration { return max(j.to-j.from, j.from-j.to) }

// regionsOf is how many regions a world has, and processesOf how many processes a region has.
const (
	regionsOf   = 3
	processesOf = 2
)

// newWorld starts servers and processes. It returns when all regions grant.
func newWorld(t *testing.T, seed uint64, n needs) *world {
	t.Helper()
	w := &world{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), told: make(map[string]bool)}
	w.order = order{
		numbers: numbers{Window: time.Second, Quota: 120, DayEnds: time.Now().Add(6 * time.Second).Unix(), Floor: 45, Overdraft: 6},
		Regions: max(regionsOf, n.most), Goroutines: 6, Pause: 225 * time.Millisecond, Timeout: 500 * time.Millisecond, MaxCost: 15,
	}
	if n.apart {
		w.home, w.homeClock = w.server(n)
	}
	for range regionsOf {
		w.addRegion(n)
	}
	w.saved = filepath.Join(must.Get(w.home.Client(t).ConfigGet(t.Context(), "dir").Result())(t)["dir"], "dump.rdb")
	w.remember()
	for _, r := range w.regions {
		for range processesOf {
			w.start(r)
		}
	}
	return w
}

// remember tells home that it is a minute old. One that is new leases nothing for some seconds, in case it was emptied.
func (w *world) remember() {
	w.t.Helper()
	ago := time.Now().Add(-time.Minute).Unix()
	rule := must.Get(store.NewRule("regions/mark", store.Numbers{
		Algorithm: store.FixedWindow, Quota: 1 << 50, Burst: ago, Whole: 1 << 50, Window: 10 * 365 * 24 * time.Hour,
	}))(w.t)
	mark := []store.Check{{Key: []byte("regions"), Rule: &rule, Cost: ago}}
	wait.For(w.t, "home is told", func() error {
		return redisstore.New(w.home.Client(w.t)).Take(w.t.Context(), mark, make([]store.Result, 1))
	})
}

// server starts a Redis.
func (w *world) server(n needs) (*redistest.Server, *redistest.Clock) {
	switch {
	case n.clocks:
		return redistest.StartWithClock(w.t)
	case n.keeps:
		return redistest.Start(w.t, "--appendonly", "yes", "--appendfsync", "no"), nil
	}
	return redistest.Start(w.t), nil
}

// addRegion adds a region without processes. The first one is home, if there is none.
func (w *world) addRegion(n needs) *region {
	r := &region{number: len(w.regions)}
	r.server, r.clock = w.server(needs{clocks: n.clocks})
	if w.home == nil {
		w.home, w.homeClock = r.server, r.clock
	} else {
		r.proxy = redistest.StartProxy(w.t, w.home)
		r.proxy.Delay(usualDelay)
	}
	w.regions = append(w.regions, r)
	return r
}

// start starts a process in a region.
func (w *world) start(r *region) *process {
	w.t.Helper()
	p := &process{name: fmt.Sprintf("%v.%d", r, len(w.processes)), region: r, asked: make(map[string]*lease)}
	p.path = filepath.Join(w.dir, p.name)
	o := w.order
	o.Region, o.Journal, o.Seed = r.String(), p.path, w.random.Uint64()
	o.Local = address{r.server.Network(), r.server.Addr()}
	if o.Home = o.Local; r.proxy != nil {
		o.Home = address{"tcp", r.proxy.Addr()}
	}
	p.Process = deciding.Start(w.t, o)
	w.t.Cleanup(func() {
		if p.file != nil {
			_ = p.file.Close()
		}
	})
	r.processes = append(r.processes, p)
	w.processes = append(w.processes, p)
	return p
}

// kill kills a process at once.
func (w *world) kill(p *process) {
	p.Kill()
	<-p.Ended()
	p.killed = true
	p.region.processes = slices.DeleteFunc(p.region.processes, func(other *process) bool { return other == p })
	w.note("%s is killed", p.name)
}

// end ends the processes of a region in good order.
func (w *world) end(r *region) {
	w.t.Helper()
	for _, p := range r.processes {
		p.Close()
	}
	for _, p := range r.processes {
		p.Wait(w.t)
	}
	r.processes = nil
}

// finish ends all processes.
func (w *world) finish() {
	w.t.Helper()
	for _, r := range w.regions {
		w.end(r)
	}
	w.read()
}

// read reads what was added to the journals. It fails if a process has ended by itself.
func (w *world) read() {
	w.t.Helper()
	for _, r := range w.regions {
		for _, p := range r.processes {
			if p.State() != nil {
				w.t.Fatalf("%s has ended, %v\n%.4000s", p.name, p.State(), p.Printed())
			}
		}
	}
	for _, p := range w.processes {
		must.OK(w.t, p.read())
	}
}

// note remembers what has happened.
func (w *world) note(format string, args ...any) {
	w.events = append(w.events, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// stop stops processes, as a machine does that has other work, until the function that it returns is called.
func (w *world) stop(processes ...*process) (goOn func()) {
	for _, p := range processes {
		p.halted = true
		p.Stop(w.t)
		w.note("%s is stopped", p.name)
	}
	return func() {
		for _, p := range processes {
			p.Continue(w.t)
			p.halted = false
		}
	}
}

// replace kills a process, or ends it in good order, and starts another one.
func (w *world) replace(p *process, kill bool) {
	w.t.Helper()
	if kill {
		w.kill(p)
	} else {
		p.Close()
		p.Wait(w.t)
		p.region.processes = slices.DeleteFunc(p.region.processes, func(other *process) bool { return other == p })
	}
	w.start(p.region)
}

// forgetSaved removes what home has saved, so that it begins empty.
func (w *world) forgetSaved() {
	err := os.Remove(w.saved)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
}

// loses notes that a server loses what it was told after a time, while f runs.
func (w *world) loses(r *region, since int64, f func()) {
	l := loss{region: r, began: time.Now().UnixNano(), since: since}
	f()
	l.at = time.Now().UnixNano()
	w.losses = append(w.losses, l)
}

// turn sets the clock of a region's server, or home's if r is nil.
func (w *world) turn(r *region, from, to time.Duration) {
	clock := w.homeClock
	if r != nil {
		clock = r.clock
	}
	clock.SetAhead(w.t, to)
	w.jumps = append(w.jumps, jump{region: r, from: from, to: to, at: time.Now().UnixNano()})
}
