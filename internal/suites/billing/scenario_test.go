package billing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// process is a process that charges accounts.
type process struct {
	*child.Process
	name string
	path string // of its journal

	killed int64
	frozen bool
}

// scenario is one run: servers, processes, and what happens to them.
type scenario struct {
	t      *testing.T
	random *rand.Rand
	order  order
	dir    string

	redis      *redistest.Server
	clock      *redistest.Clock // of redis, and
	pgClock    *pgtest.Clock    // of PostgreSQL; nil if they stay right
	rdb        *redis.Client
	dump       string // path of Redis's snapshot
	postgreSQL *pgtest.Server

	processes []*process // that run
	all       []*process
	events    []string
	losses    []loss
	promised  map[int]promise
	periods   [2][]int64 // ends of those of each limit in which anything was counted; see judge
	counts    map[string]int
}

// loss is a time at which Redis lost data.
type loss struct {
	since int64 // when the snapshot was made that Redis went on with, or 0 if it was empty
	began int64 // from when on it could be lost
	at    int64 // until when
}

func newScenario(t *testing.T, seed uint64, o order, clocks ...bool) *scenario {
	t.Helper()
	s := &scenario{t: t, random: rand.New(rand.NewPCG(seed, 14)), order: o, dir: t.TempDir(), counts: make(map[string]int)}
	s.postgreSQL = pgtest.Start(t)
	if len(clocks) > 0 && clocks[0] {
		s.redis, s.clock = redistest.StartWithClock(t)
		s.order.PostgreSQL, s.pgClock = s.postgreSQL.ClockedDatabase(t)
	} else {
		s.redis, s.order.PostgreSQL = redistest.Start(t), s.postgreSQL.Database(t)
	}
	s.rdb = redis.NewClient(&redis.Options{Network: s.redis.Network(), Addr: s.redis.Addr(), MaxRetries: 10, ReadTimeout: patience})
	t.Cleanup(func() { _ = s.rdb.Close() })
	dir := must.Get(s.rdb.ConfigGet(t.Context(), "dir").Result())(t)
	s.dump = filepath.Join(dir["dir"], "dump.rdb")
	s.order.BillingDay = billingDay
	s.order.Network, s.order.Addr = s.redis.Network(), s.redis.Addr()
	return s
}

// note remembers what has happened.
func (s *scenario) note(what string, format string, args ...any) {
	s.counts[what]++
	s.events = append(s.events, clock(time.Now().UnixNano())+" "+what+" "+fmt.Sprintf(format, args...))
}

// start starts a process.
func (s *scenario) start() {
	s.t.Helper()
	p := &process{name: fmt.Sprintf("p%d", len(s.all))}
	p.path = filepath.Join(s.dir, p.name)
	o := s.order
	o.Journal, o.Seed = p.path, s.random.Uint64()
	p.Process = charging.Start(s.t, o)
	s.processes, s.all = append(s.processes, p), append(s.all, p)
}

// kill kills a process at once.
func (s *scenario) kill(i int) {
	p := s.processes[i]
	p.Kill()
	<-p.Ended()
	p.killed = time.Now().UnixNano()
	s.processes = slices.Delete(s.processes, i, i+1)
	s.note("process killed", "%s", p.name)
}

// lose has Redis lose all that it has, or go on with what it had when it saved last.
func (s *scenario) lose(how string) {
	l := loss{began: time.Now().UnixNano()}
	switch how {
	case "emptied":
		must.OK(s.t, s.rdb.FlushAll(s.t.Context()).Err())
	case "killed":
		s.redis.Kill()
		_ = os.Remove(s.dump)
		s.redis.Restart(s.t)
	case "set back":
		info, err := os.Stat(s.dump)
		s.redis.Kill()
		if err == nil {
			l.since = info.ModTime().Add(-100 * time.Millisecond).UnixNano()
		}
		s.redis.Restart(s.t)
	}
	l.at = time.Now().UnixNano()
	s.losses = append(s.losses, l)
	s.note("Redis "+how, "")
}

// save has Redis make the snapshot that it can be set back to.
func (s *scenario) save() {
	must.OK(s.t, s.rdb.Save(s.t.Context()).Err())
	s.note("Redis saved", "")
}

func (s *scenario) sleep(atLeast, atMost time.Duration) {
	// A fault is to come at any moment, whatever the processes do.
	time.Sleep(atLeast + time.Duration(s.random.Int64N(int64(atMost-atLeast))))
}

// finish ends the processes in good order.
func (s *scenario) finish() {
	s.t.Helper()
	for _, p := range s.processes {
		p.Close()
	}
	for _, p := range s.processes {
		p.Wait(s.t)
	}
	s.processes = nil
}

// records reads all journals.
func (s *scenario) records() (all []*record) {
	s.t.Helper()
	for _, p := range s.all {
		r, err := readJournal(p.name, p.path)
		if os.IsNotExist(err) { // it was killed before it began
			continue
		} else if err != nil {
			s.t.Fatal(err)
		}
		r.killed = p.killed
		all = append(all, r)
	}
	return all
}

// settled waits until Redis and PostgreSQL answer.
func (s *scenario) settled() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for s.rdb.Ping(ctx).Err() != nil {
		if ctx.Err() != nil {
			s.t.Fatal("Redis does not come back")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
