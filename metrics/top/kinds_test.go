package top

import (
	"runtime"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// byKey returns a configuration whose limit counts by that key.
func byKey(s core.Store, heavy *Tracker, key keyfuncs.Func) core.Config {
	return core.Config{Store: s, Observe: heavy, Limits: []core.Limit{core.PerHour(5).By(key).Named("client")}}
}

// published returns what others read of the limit.
func published(t *testing.T, heavy *Tracker) *Limit {
	t.Helper()
	data := must.Get(heavy.Snapshot().MarshalBinary())(t)
	var back Snapshot
	must.OK(t, back.UnmarshalBinary(data))
	return back.Limit("client")
}

// A policy file changed a limit's key, and instances went on to publish the first one: the command then
// blocked an address under a limit that counted users, and said that it was blocked.
func TestKeysOfALimitWhosePolicyChanges(t *testing.T) {
	t.Parallel()
	s, heavy := core.NewMemory(), newTracker(Config{Instance: "node"})
	var live compose.Live
	l := must.Get(live.Limiter(byKey(s, heavy, keyfuncs.ClientIP())))(t)
	l.Allow(keyfuncs.Values{"ip": "192.0.2.7"})
	check.All(t, "at first", []any{published(t, heavy).Keys, published(t, heavy).KeysBefore == nil}, "ip", true)

	must.OK(t, live.Replace(byKey(s, heavy, keyfuncs.User("user"))))
	l.Allow(keyfuncs.Values{"user": "192.0.2.7"})
	got := published(t, heavy)
	check.Equal(t, "keys after a change", got.Keys, "user")
	check.Slices(t, "keys before it", got.KeysBefore, []string{"ip"})
	for _, key := range []string{"ip:192.0.2.7", "user:192.0.2.7"} {
		c, ok := got.Client(key)
		check.All(t, key+": known, with requests", []any{ok, c.Hour.Requests}, true, int64(1))
	}

	// A file without the limit: what the store has of it can't be acted upon any more.
	other := byKey(s, heavy, keyfuncs.User("user"))
	other.Limits = []core.Limit{core.PerHour(5).By(keyfuncs.ClientIP()).Named("other")}
	must.OK(t, live.Replace(other))
	got = published(t, heavy)
	check.All(t, "of a limit that is gone: keys and numbers", []any{got.Keys, got.Numbers}, "", store.Numbers{})
	runtime.KeepAlive(s)
}

// While a new version reaches one instance after the other, a key may be of both kinds.
func TestKeysOfInstancesThatDoNotAgree(t *testing.T) {
	t.Parallel()
	of := func(keys string, before ...string) *Snapshot {
		return &Snapshot{Limits: []Limit{{Name: "client", Keys: keys, KeysBefore: before}}}
	}
	for _, test := range []struct {
		all  []*Snapshot
		want string
	}{
		{[]*Snapshot{of(""), of("ip"), of("ip")}, "ip"},
		{[]*Snapshot{of("user", "ip"), of("ip"), of("user", "ip")}, "first(ip,user)"},
		{[]*Snapshot{of("ip once per header.x-op"), of("ip once per header.y-op")}, "ip"},
		{[]*Snapshot{of("join(ip,route)"), of("first(user,ip)")}, "first(first(user,ip),join(ip,route))"},
	} {
		check.Equal(t, "keys", Merge(test.all...).Limit("client").Keys, test.want)
	}
	check.Slices(t, "before", Merge(of("user", "ip"), of("ip"), of("user", "ip", "tenant")).Limit("client").KeysBefore, []string{"ip", "tenant"})
	long := make([]*Snapshot, 50)
	for i := range long {
		long[i] = of("header.x-" + string(rune('a'+i%26)) + "-and-a-long-name-" + string(rune('a'+i/26)))
	}
	check.Equal(t, "keys of many instances that do not agree are bounded", len(Merge(long...).Limit("client").Keys) <= maxKinds, true)
}
