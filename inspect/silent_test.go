package inspect

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/metrics/top"
)

// Instances that are missing are listed for some minutes, but not while the others can't be read, and
// never too many of them.
func TestSilentInstances(t *testing.T) {
	t.Parallel()
	var seen instances
	start := time.Unix(1_800_000_000, 0)
	named := func(names ...string) (all []top.Instance) {
		for _, name := range names {
			all = append(all, top.Instance{Name: name})
		}
		return all
	}
	for _, step := range []struct {
		after    time.Duration
		present  []top.Instance
		complete bool
		want     string
	}{
		{0, named("a", "b", "c"), true, "[]"},
		{time.Second, named("a", "b"), true, "[c]"},
		{2 * time.Second, named("a"), false, "[]"},
		{3 * time.Second, named("a"), true, "[b c]"},
		{4 * time.Second, named("a", "c"), true, "[b]"},
		{5*time.Minute + 2*time.Second, named("a"), true, "[c]"},
		{10 * time.Minute, named("a"), true, "[]"},
	} {
		names := []string{}
		for _, s := range seen.note(start.Add(step.after), step.present, step.complete) {
			names = append(names, s.Name)
		}
		check.Equal(t, fmt.Sprintf("silent after %v", step.after), fmt.Sprint(names), step.want)
	}
	for i := range 3000 {
		seen.note(start.Add(10*time.Minute), named(fmt.Sprint("pod-", i)), true)
	}
	if n := len(seen.note(start.Add(11*time.Minute), nil, true)); n != maxSilent || len(seen.seen) > maxRemembered {
		t.Errorf("%d instances are silent, %d are remembered", n, len(seen.seen))
	}
}
