package inspect_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/exchange"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/metrics/top"
)

// What a member of the exchange says that is no instance, or one that is broken, is shown as it is, and takes nothing of what
// this process knows from the page: neither its own limits' numbers nor what it may act upon.
func TestAHostileMemberOfTheExchange(t *testing.T) {
	t.Parallel()
	const most = 1<<63 - 1
	future := time.Now().AddDate(200, 0, 0)
	counts := top.Counts{Requests: most, Denied: most, WouldDeny: most}
	series := top.Series{Step: time.Second, Start: future, Allowed: []int64{most}, Denied: []int64{most}, WouldDeny: []int64{most}}
	hostile := func(instance string, change func(*top.Limit)) []byte {
		s := &top.Snapshot{Uncounted: most, Instances: []top.Instance{{Name: instance, At: future, Health: top.Health{Out: true, Since: future, Class: "<b>"}}}}
		for _, name := range []string{"per-user", "unheard-of"} {
			l := top.Limit{
				Name: name, Algorithm: 200, Quota: most, Burst: 1, Window: most, Keys: "<script>", KeysBefore: []string{"header.x-user"},
				Clients: []top.Client{{Key: "header.x-user:<script>alert(1)</script>", Minute: counts, Hour: counts, Used: 1, Denial: top.Denial{At: future, Reason: 250, Quota: most, Burst: 1, Window: most, RetryAfter: most}}},
				Rates:   top.Rates{Seconds: series, Minutes: series},
				Numbers: store.Numbers{Algorithm: store.TokenBucket, Quota: 1 << 40, Window: time.Hour, Burst: 1 << 40},
			}
			change(&l)
			s.Limits = append(s.Limits, l)
		}
		return must.Get(s.MarshalBinary())(t)
	}
	shared := new(exchange.Memory)
	for name, change := range map[string]func(*top.Limit){
		"a": func(*top.Limit) {},
		"b": func(l *top.Limit) { l.Algorithm, l.Window, l.Quota = 0, 0, 0 },
		"c": func(l *top.Limit) { l.Algorithm, l.Burst, l.Keys = store.Calendar, 0, "" },
	} {
		must.OK(t, shared.Publish(t.Context(), name, hostile(name, change), time.Hour))
	}
	s := memstore.New()
	in := start(t, s)
	heavy := top.New(top.Config{Exchange: shared, Instance: "mine"})
	t.Cleanup(heavy.Close)
	limiter := core.Must(core.New(core.Config{Store: s, Observe: heavy, Limits: []core.Limit{perUser()}}))
	for range 7 {
		limiter.AllowKey(t.Context(), "header.x-user:eve", 1)
	}
	page := must.Get(inspect.New(inspect.Config{Store: s, Top: heavy, Users: users, Timeout: time.Minute}))(t)
	t.Cleanup(page.Close)
	in.serve(t, http.StripPrefix("/ops", page), 0)

	var o overview
	in.must(t, "GET", "api/v1/overview", "", &o)
	check.Equal(t, "instances", len(o.Instances), 4)
	for _, l := range o.Limits {
		if l.Name == "per-user" {
			check.Equal(t, "the numbers of a limit of this process", l.Numbers, "5 per 1h")
		}
	}
	for _, path := range []string{"limits", "clients?limit=per-user", "clients?limit=unheard-of&by=near", "clients?limit=per-user&by=busy", "blocks", "health"} {
		status, text := in.call(t, "GET", "api/v1/"+path, "")
		check.Equal(t, path, status, http.StatusOK)
		if strings.Contains(text, "<script") {
			t.Errorf("%s: %.200s", path, text) // encoding/json writes < as an escape
		}
	}
	var e explanation
	in.must(t, "POST", "api/v1/explain", `{"query":"header.x-user:eve"}`, &e)
	check.All(t, "a client is", []any{e.Keys[0].State, strings.HasPrefix(e.Keys[0].Summary, "Denied by per-user. All 5 used")}, "denied", true)
	in.must(t, "POST", "api/v1/explain", `{"query":"header.x-user:<script>alert(1)</script>"}`, &e)
	in.must(t, "POST", "api/v1/block", `{"key":"header.x-user:eve","limit":"per-user","seconds":60}`, nil)
	in.wantStatus(t, http.StatusNotFound, "POST", "api/v1/block", `{"key":"header.x-user:eve","limit":"unheard-of","seconds":60}`)
	check.Equal(t, "the client that is blocked", limiter.AllowKey(t.Context(), "header.x-user:eve", 1).Reason, core.ReasonBlocked)
}
