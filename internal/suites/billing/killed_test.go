package billing

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/long"
)

// harm is what may happen in a scenario.
type harm struct {
	name    string
	process bool // processes are killed
	empty   bool // Redis is emptied, and killed
	back    bool // Redis is set back to an older state, as by a replica that takes over
}

// Every seed has PostgreSQL killed and frozen, Redis frozen, and processes frozen.
var harms = []harm{
	{name: "processes", process: true},
	{name: "Redis", empty: true},
	{name: "processes and Redis", process: true, empty: true},
	{name: "failover", back: true},
	{name: "everything", process: true, empty: true, back: true},
}

// Processes charge hundreds of tenants while processes, Redis and PostgreSQL are killed and frozen. Then
// the book has what the journals have: to the unit if no process was killed or Redis lost nothing,
// and else but for what killed processes had not written yet when Redis lost it too.
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
			o := order{Goroutines: long.Rounds(8, 64), Tenants: long.Rounds(250, 1000), Quota: 1 << 40, Settle: true, FlushEvery: time.Duration(20+random.IntN(200)) * time.Millisecond}
			if (seed/len(harms)+seed)%2 == 1 { // tenants reach their quota
				o.Quota, o.Settle = 300, false
			}
			s := newScenario(t, uint64(seed), o)
			s.torment(h, 4, long.Rounds(2*time.Second, 4*time.Second))
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
	s.sleep(500*time.Millisecond, time.Second)
	var thaw []func()
	for end := time.Now().Add(lasting); time.Now().Before(end); {
		s.sleep(10*time.Millisecond, 300*time.Millisecond)
		switch n := s.random.IntN(12); {
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
	s.finish()
	s.settled()
}
