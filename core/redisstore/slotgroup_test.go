package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
)

// Whatever the order of a request's limits, the slot of a limit for each client is asked
// before that of a limit for each tenant, and that before that of a limit for all. Slots
// that can't deny are asked last.
func TestSlotsAreAskedFromTheClientsOwnToTheCommonOne(t *testing.T) {
	t.Parallel()
	var s Store
	s.route = &unknownRoute{}
	rules := map[string]*core.Rule{}
	for _, name := range []string{"user", "tenant", "all", "watched"} {
		r := mustRule(core.PerDay(10).Named(name))
		rules[name] = &r
	}
	for n := range 300 {
		checks := []core.Check{
			{Key: []byte("all"), Rule: rules["all"], Cost: 1},
			{Key: fmt.Append(nil, "tenant:", n/50), Rule: rules["tenant"], Cost: 1},
			{Key: fmt.Append(nil, "watched:", n), Rule: rules["watched"], Cost: 1, Shadow: true},
			{Key: fmt.Append(nil, "user:", n), Rule: rules["user"], Cost: 1},
		}
		if n%2 == 1 {
			slices.Reverse(checks)
		}
		ps := s.jobsFor(nil, take, checks, nil)
		r := newMultiSlot(ps, checks)
		releaseAll(ps)
		r.plan(&s.cardinalities)
		var order []string
		for i := range r.groups {
			order = append(order, r.groups[i].checks[0].Rule.Name)
		}
		if want := []string{"user", "tenant", "all", "watched"}; n >= 100 && !slices.Equal(order, want) {
			t.Fatalf("request %d asks in the order %v, want %v", n, order, want)
		}
		if from, to := r.stepFrom(0), r.stepFrom(r.stepFrom(0)); from != 1 || to != 2 || r.stepFrom(to) != 4 {
			t.Fatalf("steps end at %d, %d and %d", from, to, r.stepFrom(to))
		}
		r.release()
	}
}

func TestLogsAreAsLongAsTheyHaveRecentlyBeen(t *testing.T) {
	t.Parallel()
	var l logLengths
	rule := mustRule(core.PerDay(5000).SlidingLog().Named("log"))
	if got := l.longest(&rule); got != 5000 {
		t.Errorf("a log that nobody has seen: %d entries, want as many as it can have", got)
	}
	l.note(&rule, 3)
	l.note(&rule, 700)
	l.note(&rule, 4)
	check.Equal(t, "the longest log: entries", l.longest(&rule), 700)
	at := &l[rule.ID()%uint64(len(l))]
	for periods, want := range []int{700, 700, 5000} {
		aged := unpackLength(at.Load())
		aged.period = logPeriod() - uint32(periods)
		at.Store(aged.pack())
		check.Equal(t, fmt.Sprintf("the longest log, %v later: entries", time.Duration(periods)*logLengthPeriod), l.longest(&rule), want)
	}
}
