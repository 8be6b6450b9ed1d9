package prove

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

// long are windows that don't end while a history is made: when an operation happened whose answer got
// lost can be told by no edge of a window.
var long = []time.Duration{10 * time.Hour, 24 * time.Hour, 240 * time.Hour}

// faulty is a server and processes, which a history breaks.
type faulty struct {
	testing.TB
	server    *redistest.Server
	client    *redis.Client
	order     order
	processes []*process
	count     *tally
	lost      []*operation // when the server lost what it had
	next      []int        // faults, in a random order: each comes once before any comes again
}

// TestFaults freezes the server, cuts its connections, has it forget the script, kills it, with and without
// its data, and stops and kills processes.
func TestFaults(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	o := order{Network: server.Network(), Addr: server.Addr()}
	f := &faulty{TB: t, server: server, client: server.Client(t), order: o, processes: startAll(t, o)}
	each(t, 0.3, func(seed uint64, count *tally) *history {
		h := newHistory("faults", seed, long...)
		h.job.Clients, h.job.Keys, h.job.Each, h.job.Patience, h.job.Backoff = 16, 1+int(seed%2), 16, 60_000, 60_000
		h.job.Pause = 10_000
		f.count, f.lost = count, nil
		done := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { f.breakThings(h.seed, done) })
		together(t, h, f.processes)
		close(done)
		all.Wait()
		h.operations = append(h.operations, f.lost...)
		f.mend()
		return h
	})
}

// breakThings breaks one thing after the other until done.
func (f *faulty) breakThings(seed uint64, done <-chan struct{}) {
	r := rand.New(rand.NewPCG(seed, 99))
	for {
		select {
		case <-done:
			return
		case <-time.After(micros(5000 + r.Int64N(40_000))):
		}
		if len(f.next) == 0 {
			f.next = r.Perm(19)
		}
		n := f.next[0]
		f.next = f.next[1:]
		switch {
		case n < 8:
			f.count.note("connections cut", int(f.server.KillClients(f)))
			if r.IntN(4) == 0 {
				cutSubscriptions(f, f.client, f.count)
			}
		case n < 11:
			f.server.Freeze(f)
			time.Sleep(micros(r.Int64N(100_000)))
			f.server.Thaw(f)
			f.count.note("server stopped", 1)
		case n < 15:
			p := f.processes[r.IntN(len(f.processes))]
			p.Stop(f)
			time.Sleep(micros(r.Int64N(50_000)))
			p.Continue(f)
			f.count.note("processes stopped", 1)
		case n < 16:
			f.server.ScriptFlush(f)
			f.count.note("scripts forgotten", 1)
		case n < 17:
			f.processes[r.IntN(len(f.processes))].Kill()
			f.count.note("processes killed", 1)
		case n < 18:
			f.server.Kill()
			f.server.Restart(f)
			f.count.note("server restarted", 1)
		case n < 19:
			f.lose()
		}
	}
}

// lose has the server lose all that it has.
func (f *faulty) lose() {
	o := &operation{ID: -1, Client: everybody, Kind: emptied, Call: monotonic()}
	f.server.Kill()
	if err := os.RemoveAll(filepath.Join(filepath.Dir(f.server.Addr()), "appendonlydir")); err != nil {
		f.Error(err)
	}
	f.server.Restart(f)
	o.Return, o.Ended = monotonic(), true
	f.lost = append(f.lost, o)
	f.count.note("server emptied", 1)
}

// mend starts processes again that were killed.
func (f *faulty) mend() {
	for i, p := range f.processes {
		if p.dead() {
			f.processes[i] = start(f, f.order)
		}
	}
}
