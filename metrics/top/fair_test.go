package top

import (
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Of a limit that clients divide the lists have the clients, and why they were denied.
func TestClientsThatDivideALimit(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{})
	l := must.Get(core.New(core.Config{Store: core.NewMemory(), Observe: heavy, Limits: []core.Limit{
		core.PerHour(100).By(keyfuncs.Everyone()).Named("capacity").Fair(core.Shares{By: keyfuncs.User("user")}),
	}}))(t)
	l.Allow(keyfuncs.Values{"user": "light"})
	for range 100 {
		l.Allow(keyfuncs.Values{"user": "heavy"})
	}
	s := heavy.Snapshot()
	check.Equal(t, "what its keys are made of", s.Limit("capacity").Keys, "all divided among user")
	most := s.Limit("capacity").MostDenied(5)
	must.Equal(t, "denied", len(most), 1)
	d := most[0].Denial
	check.All(t, "the heavy one", []any{most[0].Key, most[0].Used, d.Standing}, "user:heavy", 1.0, store.OverShare)
	if d.Share < 40 || d.Share > 50 {
		t.Errorf("its share was %d of 100", d.Share)
	}
	light, _ := s.Limit("capacity").Client("user:light")
	check.Equal(t, "what the light one has used of its share", light.Used < 0.1, true)
	data := must.Get(s.MarshalBinary())(t)
	check.Equal(t, "the version of the encoding", data[0], byte(sharesVersion))
	var back Snapshot
	must.OK(t, back.UnmarshalBinary(data))
	check.Equal(t, "decoded", back.Limit("capacity").MostDenied(1)[0].Denial, d)
	check.Equal(t, "without shares older releases read it", must.Get(filled(t, 1, 5).Snapshot().MarshalBinary())(t)[0], byte(encodingVersion))
	for i := range data { // whatever is cut off or changed
		_ = back.UnmarshalBinary(data[:i])
	}
}
