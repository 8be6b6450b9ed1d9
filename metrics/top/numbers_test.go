package top

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// A process that reads a snapshot can make the same rules as the one that wrote it: otherwise it
// would read other buckets, or read them wrongly.
func TestRulesCanBeMadeOfASnapshot(t *testing.T) {
	t.Parallel()
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	limits := map[string]core.Limit{
		"bucket":   core.PerSecond(3).Burst(7),
		"queue":    core.PerMinute(60).LeakyBucket(2 * time.Second),
		"jitter":   core.PerHour(10).FixedWindow().Jitter(),
		"sliding":  core.PerMinute(10).SlidingWindow(),
		"log":      core.PerMinute(10).SlidingLog(),
		"penalty":  core.PerMinute(5).Penalty(core.Block{After: 3, Within: time.Hour, For: time.Minute, Max: 300 * 24 * time.Hour}),
		"month":    core.PerMonth(1000, berlin),
		"parallel": core.Concurrent(3),
	}
	for name, limit := range limits {
		heavy := newTracker(Config{Instance: "node"})
		l := newLimiter(t, heavy, limit.Named(name))
		ask(l, "user:1", 1)
		heavy.settle(tick(heavy.clock.Load()))
		s := heavy.Snapshot()
		data := must.Get(s.MarshalBinary())(t)
		var back Snapshot
		must.OK(t, back.UnmarshalBinary(data))
		want := heavy.state.Load().ruleOf(t, name)
		got, err := store.NewRule(name, back.Limit(name).Numbers)
		check.OK(t, err)
		check.Equal(t, name+": the rule of the snapshot", got, want)
		check.Equal(t, name+": numbers after merging", Merge(&Snapshot{Limits: []Limit{{Name: name}}}, &back).Limit(name).Numbers, back.Limit(name).Numbers)
	}
}

// A zone that other machines don't know, or know as another one, must not make wrong windows.
func TestNumbersOfUnknownTimeZonesAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, zone := range []*time.Location{time.FixedZone("", 3600), time.FixedZone("Europe/Berlin", 5*3600), time.FixedZone("../etc/passwd", 0), time.Local} {
		heavy := newTracker(Config{Instance: "node"})
		ask(newLimiter(t, heavy, core.PerMonth(1000, zone).Named("month")), "user:1", 1)
		heavy.settle(tick(heavy.clock.Load()))
		data := must.Get(heavy.Snapshot().MarshalBinary())(t)
		var back Snapshot
		must.OK(t, back.UnmarshalBinary(data))
		check.Equal(t, fmt.Sprintf("zone %q: decoded", zone), back.Limit("month").Numbers, store.Numbers{})
	}
}

func (s *state) ruleOf(t *testing.T, name string) store.Rule {
	t.Helper()
	for _, l := range *s.limits.Load() {
		if l.name == name {
			return *l.rule
		}
	}
	t.Fatalf("no limit %q", name)
	return store.Rule{}
}
