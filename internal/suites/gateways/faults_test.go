package gateways

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// While clients send requests as fast as they are answered, over connections that are kept, the limiter is killed and
// started, and frozen and thawed. Each request is decided, or answered as the policy says, however busy the gateway is.
func TestFaultsUnderLoad(t *testing.T) {
	t.Parallel()
	for _, clients := range long.Rounds([]int{16}, []int{200, 700}) {
		t.Run(fmt.Sprintf("%d clients", clients), func(t *testing.T) {
			for _, p := range programs {
				for _, policy := range p.policies {
					t.Run(p.name+" "+policy, func(t *testing.T) {
						if !long.Run() { // such a crowd is for a machine of its own
							t.Parallel()
						}
						s := p.startAsIs(t, fast, policy)
						s.faults(t, policy, clients)
					})
				}
			}
		})
	}
}

// phases are what happens to the limiter.
var phases = []struct {
	name string
	away bool
	then func(s *setup, t *testing.T)
}{
	{"there", false, func(*setup, *testing.T) {}},
	{"killed", true, func(s *setup, _ *testing.T) { s.limiter.stop() }},
	{"restarted", false, func(s *setup, t *testing.T) { s.limiter.start(t) }},
	{"frozen", true, func(s *setup, t *testing.T) { s.limiter.freeze(t) }},
	{"thawed", false, func(s *setup, t *testing.T) { s.limiter.thaw(t) }},
}

// faults has the limiter go through the phases, twice.
func (s *setup) faults(t *testing.T, policy string, clients int) {
	t.Helper()
	var wg sync.WaitGroup
	var stop atomic.Bool
	var phase, decided, without atomic.Int64 // what answers begin in, and how many there are
	rounds := long.Rounds(1, 2) * len(phases)
	tallies := make([][]*tally, clients) // by client and phase
	for i := range tallies {
		c := s.client(t, fmt.Sprintf("127.0.%d.%d", 100+i/200, 1+i%200))
		tallies[i] = make([]*tally, rounds+1)
		for j := range tallies[i] {
			tallies[i][j] = &tally{bare: s.bare, statuses: map[int]int{}}
		}
		wg.Go(func() {
			for !stop.Load() {
				n := phase.Load()
				if tallies[i][n].ask(c) {
					decided.Add(1)
					continue
				}
				without.Add(1)
				if !phases[n%int64(len(phases))].away {
					time.Sleep(5 * time.Millisecond) // the gateway goes on without the limiter for a second
				}
			}
		})
	}
	var end sync.Once
	stopped := func() {
		stop.Store(true)
		wg.Wait()
		for n := range int(phase.Load()) + 1 {
			s.judge(t, policy, n, tallies)
		}
	}
	defer end.Do(stopped) // what there is, too, where a phase does not end
	for n := range rounds {
		phases[n%len(phases)].then(s, t)
		phase.Store(int64(n))
		count := &decided
		if phases[n%len(phases)].away {
			count = &without
		}
		enough := count.Load() + int64(long.Rounds(2, 10)*clients)
		wait.Until(t, "requests are answered as they are in this phase", func() bool { return count.Load() >= enough })
	}
	end.Do(stopped)
	if n := s.strays.Load(); n > 0 {
		t.Errorf("the application got %d subrequests", n)
	}
	s.back(t)
}

// judge logs how requests were answered in a phase, and fails the test for answers that the policy does not have.
func (s *setup) judge(t *testing.T, policy string, n int, tallies [][]*tally) {
	t.Helper()
	all := &tally{statuses: map[int]int{}}
	for _, one := range tallies {
		all.add(one[n])
	}
	t.Logf("%-9s %v, %d of them decided, longest %v", phases[n%len(phases)].name, all, all.limited, all.longest)
	allowed := map[string][]int{"open": {200}, "closed": {200, 503}, "local": {200, 429}}[policy]
	for status, n := range all.statuses {
		if !slices.Contains(allowed, status) {
			t.Errorf("%d requests got %d", n, status)
		}
	}
	if policy == "closed" && all.statuses[200] > all.limited {
		t.Errorf("%d requests passed and were not decided", all.statuses[200]-all.limited)
	}
	if len(all.unnamed) > 0 {
		t.Errorf("%d answers that the documentation does not name, such as %q", len(all.unnamed), all.unnamed[0])
	}
}

// add adds the answers of another.
func (got *tally) add(other *tally) {
	for status, n := range other.statuses {
		got.statuses[status] += n
	}
	got.unnamed = append(got.unnamed, other.unnamed...)
	got.limited += other.limited
	got.longest = max(got.longest, other.longest)
}

// String returns how many answers have each status.
func (got *tally) String() string {
	var all []string
	for _, status := range slices.Sorted(maps.Keys(got.statuses)) {
		all = append(all, fmt.Sprintf("%d × %d %s", got.statuses[status], status, http.StatusText(status)))
	}
	return strings.Join(all, ", ")
}
