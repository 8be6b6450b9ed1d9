package top

import (
	"context"
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// decidedBy has a limit decide by a configuration of that version.
func decidedBy(t *testing.T, heavy *Tracker, version string, requests int) {
	t.Helper()
	l := core.Must(core.New(core.Config{
		Store: core.NewMemory(), Limits: []core.Limit{core.PerMinute(1).By(keyfuncs.Everyone()).Named("login")}, Observe: heavy, Version: version,
	}))
	for range requests {
		l.AllowKey(context.Background(), "user:1", 1)
	}
}

// During a roll-out, instances decide by different versions; each denial keeps its own.
func TestVersions(t *testing.T) {
	t.Parallel()
	one, two := newTracker(Config{Instance: "one"}), newTracker(Config{Instance: "two"})
	decidedBy(t, one, "v1#aaaa", 2)
	decidedBy(t, two, "v2#bbbb", 1)
	merged := Merge(one.Snapshot(), two.Snapshot())
	data := must.Get(merged.MarshalBinary())(t)
	var s Snapshot
	must.OK(t, s.UnmarshalBinary(data))
	l := s.Limit("login")
	check.All(t, "versions of the limit and the instances", []any{l.Versions, s.Instances[0].Versions, s.Instances[1].Versions}, []string{"v1#aaaa", "v2#bbbb"}, []string{"v1#aaaa"}, []string{"v2#bbbb"})
	check.Equal(t, "denied by", l.Clients[0].Denial.Version, "v1#aaaa")

	// A denial keeps its version while others decide, and says none once there were many.
	for i := range 3 * keptVersions {
		decidedBy(t, one, fmt.Sprint("w", i), 1)
		if i == 3 {
			from, to := one.state.Load(), newState(newSecret())
			one.state.Store(to)
			one.move(from, to)
		}
		limit := one.Snapshot().Limit("login")
		if got := limit.Clients[0].Denial.Version; i < keptVersions/2 && got != "v1#aaaa" || i >= 2*keptVersions && got != "" {
			t.Errorf("after %d others, denied by %q", i+1, got)
		}
		check.Slices(t, fmt.Sprintf("versions after w%d", i), limit.Versions, []string{fmt.Sprint("w", i)})
	}
	none := newTracker(Config{})
	decidedBy(t, none, "", 1)
	decidedBy(t, one, "v\x1b[2J\n", 1)
	n := none.Snapshot()
	check.All(t, "no version", []any{n.Instances[0].Versions == nil, n.Limits[0].Versions == nil}, true, true)
	check.Equal(t, "an odd version", one.Snapshot().Limits[0].Versions[0], "v?[2J?")
}
