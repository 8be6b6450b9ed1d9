package regions

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/regions"
)

// order tells a process what to do.
type order struct {
	numbers
	Region      string
	Regions     int
	Local, Home address
	Journal     string // path
	Seed        uint64
	Goroutines  int
	Pause       time.Duration // of each goroutine between requests, on average: more load finds nothing more
	Timeout     time.Duration // of a decision
	MaxCost     int64
}

// address is where a server is.
type address struct{ Network, Addr string }

func (a address) open() *redisstore.Store {
	s := redisstore.New(redis.NewClient(&redis.Options{Network: a.Network, Addr: a.Addr}))
	s.OnEvent(func(core.Event) {}) // no log
	return s
}

// home is the home store, as a process sees it, and writes down what is leased.
type home struct {
	store.Store
	journal *journal
}

// Take notes the lease before it is asked for, and its answer before the region hears of it. So units that a region
// spends are in a journal. A lease is asked for once, by a name, and is the first check.
func (h *home) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	c := &checks[0]
	if len(c.Once) == 0 {
		return h.Store.Take(ctx, checks, results)
	}
	name, _, _ := strings.Cut(c.Rule.Name, "/")
	operation := string(c.Once)
	h.journal.line("a %s %d %s %d %d", operation, slices.Index(limitNames, name), c.Key[1:], c.Cost, time.Now().UnixNano())
	err := h.Store.Take(ctx, checks, results)
	if r := &results[0]; err == nil {
		h.journal.line("b %s %t %d %d", operation, r.Charged || r.Repeated, time.Now().UnixNano(), r.At)
	}
	return err
}

// Refund notes the units of a lease that are given back.
func (h *home) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	c, r := &checks[0], results[0]
	err := h.Store.Refund(ctx, checks, results)
	name, _, _ := strings.Cut(c.Rule.Name, "/")
	h.journal.line("r %d %s %d %t %d %d", slices.Index(limitNames, name), c.Key[1:], c.Cost, r.Charged, r.At, time.Now().UnixNano())
	return err
}

// worker is a process that decides until it is told to end.
type worker struct {
	order
	store    *regions.Store
	limiters []*core.Limiter // by limit
	journal  *journal
}

// deciding is what a process does.
var deciding = child.NewRole("deciding", func(t *testing.T, parent *child.Parent, o order) {
	must.OK(t, (&worker{order: o}).work(parent))
})

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

func (w *worker) work(parent *child.Parent) error {
	var err error
	if w.journal, err = openJournal(w.Journal); err != nil {
		return err
	}
	local := w.Local.open()
	h := &home{Store: local, journal: w.journal}
	if w.Home != w.Local {
		h.Store = w.Home.open()
	}
	w.store, err = regions.New(local, h, regions.Config{Region: w.Region, Regions: w.Regions, Floor: w.Floor})
	if err != nil {
		return err
	}
	for l := range limitNames {
		limiter, err := core.New(core.Config{Store: w.store, Limits: []core.Limit{w.of(limit(l))}, Timeout: w.Timeout})
		if err != nil {
			return err
		}
		w.limiters = append(w.limiters, limiter)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		parent.Wait()
		stop()
	}()
	var all sync.WaitGroup
	for i := range w.Goroutines {
		all.Go(func() { w.run(ctx, rand.New(rand.NewPCG(w.Seed, uint64(i)))) })
	}
	all.Go(func() { w.tell(ctx) })
	all.Wait()
	return nil
}

// tell writes down the store's numbers from time to time.
func (w *worker) tell(ctx context.Context) {
	for {
		text, err := json.Marshal(w.store.Stats().Counts)
		if err != nil {
			panic(err)
		}
		w.journal.line("s %d %s", time.Now().UnixNano(), text)
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// run makes requests until ctx is done.
func (w *worker) run(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(r.Int64N(int64(2 * w.Pause))))
		w.ask(limit(r.IntN(len(limitNames))), r.IntN(keysPerLimit), 1+r.Int64N(w.MaxCost))
	}
}

// ask makes a request, and writes down what was decided.
func (w *worker) ask(l limit, key int, cost int64) {
	asked := time.Now().UnixNano()
	d := w.limiters[l].AllowKey(context.Background(), client(key), cost) // requests end by themselves
	answered, at, is := time.Now().UnixNano(), int64(0), granted
	switch {
	case d.Reason == core.ReasonOutageDenied: // there is no result
		is = unknown
	case !d.Allowed:
		is = denied
	}
	if is != unknown {
		at = d.Results()[0].At
	}
	w.journal.line("d %d %d %d %c %d %d %d", l, key, cost, is, asked, answered, at)
}
