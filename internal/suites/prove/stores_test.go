package prove

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// short are windows that pass while a history is made, and longer ones.
var short = []time.Duration{2 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, time.Second, time.Hour}

// processesOf is how many processes make a history.
const processesOf = 4

// together has processes make a history, whose part of the job they get by number.
func together(tb testing.TB, h *history, processes []*process) {
	tb.Helper()
	made := make([][]*operation, len(processes))
	errs := make([]error, len(processes))
	var all sync.WaitGroup
	for i, p := range processes {
		j := h.job
		j.Process, j.First, j.Repeat = i, len(h.operations)+i*j.Threads*j.Each, h.repeats.process(i)
		all.Go(func() { made[i], errs[i] = p.run(tb, &j) })
	}
	all.Wait()
	for i := range processes {
		if errs[i] == nil {
			errs[i] = processes[i].failure()
		}
		if errs[i] != nil {
			tb.Errorf("seed %d: %v", h.seed, errs[i])
		}
		h.operations = append(h.operations, made[i]...)
	}
}

func startAll(tb testing.TB, o order) []*process {
	tb.Helper()
	return startEach(tb, slices.Repeat([]order{o}, processesOf))
}

func startEach(tb testing.TB, orders []order) []*process {
	tb.Helper()
	all := make([]*process, len(orders))
	for i, o := range orders {
		all[i] = start(tb, o)
	}
	h := newHistory("connect", 1, long...) // the first answers take long
	if h.repeats = byAll; orders[0].PostgreSQL != "" {
		h.repeats = byNone
	}
	together(tb, h, all)
	return all
}

func TestMemory(t *testing.T) {
	s := memstore.New()
	each(t, 0.06, func(seed uint64, _ *tally) *history {
		h := newHistory("memory", seed, short...)
		h.job.Threads, h.job.Each = 16, 10
		var mu sync.Mutex
		r := &runner{store: s, note: func(o *operation) {
			if o.Ended {
				mu.Lock()
				defer mu.Unlock()
				h.operations = append(h.operations, o)
			}
		}}
		if err := r.run(&h.job); err != nil {
			t.Error(err)
		}
		return h
	})
}

func TestRedis(t *testing.T) {
	server := redistest.Start(t)
	processes := startAll(t, order{Network: server.Network(), Addr: server.Addr()})
	each(t, 0.25, func(seed uint64, _ *tally) *history {
		h := newHistory("redis", seed, short...)
		together(t, h, processes)
		return h
	})
}

func TestCluster(t *testing.T) {
	cluster := redistest.StartClusterOf(t, 3, 0)
	processes := startAll(t, order{Addr: cluster.Nodes()[0].Addr(), Cluster: true})
	each(t, 0.1, func(seed uint64, _ *tally) *history {
		h := newHistory("cluster", seed, short...)
		together(t, h, processes)
		return h
	})
}
