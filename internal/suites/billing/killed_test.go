package billing

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// harm is what may happen in a scenario.
type harm struct {
	name    string
	process bool // processes are killed
	empty   bool // Redis is emptied, and killed
	back    bool // Redis is set back to an older state, as by a replica that takes over
	clocks  bool // those of Redis and PostgreSQL are set back and forth, Redis's across the end of a period
}

// Every seed has PostgreSQL killed and frozen, Redis frozen, and processes frozen.
var harms = []harm{
	{name: "processes", process: true},
	{name: "Redis", empty: true},
	{name: "processes and Redis", process: true, empty: true},
	{name: "failover", back: true},
	{name: "clocks", clocks: true},
	{name: "everything", process: true, empty: true, back: true},
}

// Processes charge many tenants while processes, Redis and PostgreSQL are killed and frozen, and their
// clocks set. Then the book, Redis, the days and what was exported have the same, and that is what the
// journals have: to the unit but for what a killed process had not written when Redis lost it too. Nothing is
// there twice.
func TestKilledAtRandom(t *testing.T) {
	from, n := *first, *seeds
	if *oneSeed >= 0 {
		from, n = int(*oneSeed), 1
	}
	for seed := from; seed < from+n; seed++ {
		h := harms[seed%len(harms)]
		t.Run(fmt.Sprintf("%d %s", seed, h.name), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			o := order{Goroutines: long.Rounds(8, 64), Pause: long.Rounds(25*time.Millisecond, 0), Tenants: long.Rounds(120, 1000), Quota: 1 << 40, Settle: true, FlushEvery: time.Duration(20+random.IntN(200)) * time.Millisecond}
			if (seed/len(harms)+seed)%2 == 1 { // tenants reach their quota
				o.Quota, o.Settle = 300, false
			}
			if h.clocks {
				o.DayEnds, o.TakeOnly = time.Now().Add(30*time.Second).Unix(), true
			}
			s := newScenario(t, uint64(seed), o, h.clocks)
			if h.clocks {
				s.promises(t)
			}
			s.torment(h, long.Rounds(3, 4), long.Rounds(2*time.Second, 4*time.Second))
			s.judge(t, fmt.Sprintf("%sgo test -run Killed -seed %d -v .", long.Rounds("", "LONG_TESTS=1 "), seed))
		})
	}
}

// torment runs processes for a while, with what h says.
func (s *scenario) torment(h harm, processes int, lasting time.Duration) {
	for range processes {
		s.start()
		if s.order.Quota > 1000 { // as in a deployment that changes the plan
			s.order.Quota += 1000
			s.order.FlushEvery = s.order.FlushEvery*9/10 + time.Millisecond
		}
	}
	wait.Until(s.t, "all processes charge", func() bool {
		return !slices.ContainsFunc(s.processes, func(p *process) bool {
			info, err := os.Stat(p.path)
			return err != nil || info.Size() == 0
		})
	})
	s.sleep(500*time.Millisecond, time.Second)
	var thaw []func()
	for end := time.Now().Add(lasting); time.Now().Before(end); {
		s.sleep(10*time.Millisecond, 300*time.Millisecond)
		switch n := s.random.IntN(12); {
		case n < 6 && h.clocks:
			s.turn()
		case n < 3 && h.process:
			s.kill(s.random.IntN(len(s.processes)))
			if h.empty && s.random.IntN(2) == 0 { // the worst moment
				s.lose("emptied")
			}
			s.start()
		case n < 5 && h.empty:
			s.lose([]string{"emptied", "killed"}[s.random.IntN(2)])
		case n < 7 && h.back:
			s.save()
			s.sleep(0, 300*time.Millisecond)
			s.lose("set back")
		case n == 7:
			s.note("PostgreSQL killed", "")
			s.postgreSQL.Kill()
			s.sleep(0, 700*time.Millisecond)
			s.postgreSQL.Restart(s.t)
			s.note("PostgreSQL restarted", "")
		case n == 8:
			s.note("PostgreSQL frozen", "")
			s.postgreSQL.Freeze(s.t)
			s.sleep(0, 1500*time.Millisecond)
			s.postgreSQL.Thaw(s.t)
			s.note("PostgreSQL thawed", "")
		case n == 9:
			s.note("Redis frozen", "")
			s.redis.Freeze(s.t)
			s.sleep(0, 300*time.Millisecond)
			s.redis.Thaw(s.t)
			s.note("Redis thawed", "")
		case n >= 10:
			p := s.processes[s.random.IntN(len(s.processes))]
			if p.frozen {
				break
			}
			p.frozen = true
			s.note("process frozen", "%s", p.name)
			p.Stop(s.t)
			thaw = append(thaw, func() {
				if p.killed == 0 {
					p.Continue(s.t)
				}
				p.frozen = false
			})
			if s.random.IntN(2) == 0 {
				for _, f := range thaw {
					f()
				}
				thaw = nil
			}
		}
	}
	for _, f := range thaw {
		f()
	}
	if h.clocks { // the day ends in each run, and begins again, and there are exports that are due in an hour
		s.turnTo(5 * time.Second)
		s.pgClock.SetAhead(s.t, time.Hour)
		before := s.exports()
		for deadline := time.Now().Add(5 * time.Second); s.exports() <= before && time.Now().Before(deadline); { // a lease can take longer
			s.sleep(100*time.Millisecond, 200*time.Millisecond)
		}
	}
	s.finish()
	s.right()
	s.settled()
}
