package top

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
)

func TestRatesOfInstancesAreAddedUp(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	series := func(begin int, allowed ...int64) *Snapshot {
		s := Series{Step: time.Second, Start: start.Add(time.Duration(begin) * time.Second), Allowed: allowed, Denied: make([]int64, len(allowed)), WouldDeny: make([]int64, len(allowed))}
		return &Snapshot{Limits: []Limit{{Name: "api", Rates: Rates{Seconds: s, Minutes: Series{Step: time.Minute}}}}}
	}
	none := &Snapshot{Limits: []Limit{{Name: "api", Rates: Rates{Seconds: Series{Step: time.Second}, Minutes: Series{Step: time.Minute}}}}}
	for _, tt := range []struct {
		name  string
		all   []*Snapshot
		begin int
		want  string
	}{
		{"one", []*Snapshot{series(3, 1, 2)}, 3, "[1 2]"},
		{"none", []*Snapshot{none}, 0, "[]"},
		{"the same seconds", []*Snapshot{series(3, 1, 2), series(3, 10, 20)}, 3, "[11 22]"},
		{"the older one ends the sum", []*Snapshot{series(3, 1, 2, 3, 4), series(2, 10, 20), none}, 2, "[10 21]"},
		{"the younger one began later", []*Snapshot{series(5, 1), series(2, 10, 20, 30, 40)}, 2, "[10 20 30 41]"},
		{"one clock is an hour slow", []*Snapshot{series(3, 1, 2), series(-3600, 9, 9), series(3, 1, 2)}, 5 - seriesSteps, ""},
		{"one clock is an hour fast", []*Snapshot{series(3, 1, 2), series(3600, 9, 9), series(3, 1, 2)}, 3, "[2 4]"},
	} {
		s := Merge(tt.all...).Limits[0].Rates.Seconds
		if tt.want == "" { // the sum reaches back as far as it can
			n := len(s.Allowed)
			check.All(t, tt.name, []any{n, s.Allowed[n-2:]}, seriesSteps, []int{2, 4})
		} else if fmt.Sprint(s.Allowed) != tt.want || s.Step != time.Second {
			t.Errorf("%s: %v, want %s", tt.name, s.Allowed, tt.want)
		}
		if len(s.Allowed) > 0 && !s.Start.Equal(start.Add(time.Duration(tt.begin)*time.Second)) {
			t.Errorf("%s: it starts at %v", tt.name, s.Start.Sub(start))
		}
	}
	check.Equal(t, "limits, merged with nil snapshots", len(Merge(nil, none, nil).Limits), 1)
}
