package top

import (
	"context"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestCountsOfOneClient(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{Instance: "a"})
	l, err := core.New(core.Config{Store: core.NewMemory(), Observe: heavy, Limits: []core.Limit{core.PerHour(4).By(keyfuncs.ClientIP()).Named("api")}})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		l.AllowKey(context.Background(), "user:1", 1)
	}
	c, ok := heavy.Snapshot().Limit("api").Client("user:1")
	if want := (Counts{Requests: 10, Denied: 6}); !ok || c.Minute != want || c.Hour != want || c.Used != 1 || c.Denial.Reason != core.ReasonLimitExceeded {
		t.Errorf("%+v, want %+v in the last minute and hour", c, want)
	}
}
