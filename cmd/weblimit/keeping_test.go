package main

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
	"github.com/weblimit/weblimit/quota"
)

// The page over the store of a book, and the command straight on its Redis, show what is used of limits
// that are kept, reset the others, and say what to do instead.
func TestLimitsThatAreKept(t *testing.T) {
	t.Parallel()
	b := startBiller(t, quota.Config{})
	exchange := redisstore.New(b.rdb, redisstore.Config{Prefix: b.prefix}).Exchange()
	heavy := top.New(top.Config{Exchange: longLived{exchange}, Interval: time.Second})
	t.Cleanup(heavy.Close)
	limiter := core.Must(core.New(core.Config{Store: b.book.Store(), Observe: heavy, Timeout: time.Minute, Limits: []core.Limit{
		core.PerCalendarDay(100, time.UTC).By(keyfuncs.ClientIP()).Named("kept"),
		core.PerHour(10).By(keyfuncs.ClientIP()).Named("login").Penalty(core.Block{After: 1000, Within: time.Hour, For: time.Minute}),
	}}))
	page := must.Get(inspect.New(inspect.Config{
		Store: b.book.Store(), Top: heavy, Timeout: time.Minute,
		Users: []inspect.User{{Name: "ops", Password: password, May: inspect.Act}},
	}))(t)
	t.Cleanup(page.Close)
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	onPage := call{env: map[string]string{"WEBLIMIT_URL": server.URL, "WEBLIMIT_USER": "ops", "WEBLIMIT_PASSWORD": password}}
	onRedis := call{env: map[string]string{"WEBLIMIT_REDIS": b.ops.env["WEBLIMIT_REDIS"], "WEBLIMIT_PREFIX": b.prefix}}
	edge.AwayFrom(24*time.Hour, 2*time.Minute)
	for range 8 {
		if d := limiter.AllowKey(t.Context(), "tenant:acme", 1); d.Err != nil || !d.Allowed {
			t.Fatal(d.Err)
		}
	}
	s := redisstore.New(b.rdb, redisstore.Config{Prefix: b.prefix})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without which Redis has a second
	defer cancel()
	wait.Until(t, "the application publishes its limits", func() bool {
		published := must.Get(s.Exchange().Collect(ctx))(t)
		snapshot := new(top.Snapshot)
		return len(published) > 0 && snapshot.UnmarshalBinary(published[0]) == nil && snapshot.Limit("kept") != nil && snapshot.Limit("kept").Quota > 0
	})
	for name, c := range map[string]call{"the page": onPage, "Redis": onRedis} {
		r := c.run(t, "explain", "tenant:acme")
		wants(t, squeeze(r.out), "kept: allowed (100 per calendar day", "used 8 of 100, 92 left", "kept in a book", "login: allowed")
		e := decode[pageapi.Explanation](t, c.run(t, "explain", "--json", "tenant:acme").out)
		for _, l := range e.Keys[0].Limits {
			if l.Kept != (l.Limit == "kept") || l.Used != 8 {
				t.Errorf("%s: %+v", name, l)
			}
		}
		wants(t, c.ok(t, "block", "tenant:acme", "--for", "10m", "--limit", "login"), "Blocked tenant:acme under login")
		wants(t, c.ok(t, "blocks"), "tenant:acme")
		wants(t, c.ok(t, "unblock", "tenant:acme"), "Unblocked")
		wants(t, c.fails(t, exitError, "reset", "tenant:acme", "--limit", "kept"), "kept in a book", "weblimit quota adjust")
	}
	wants(t, onRedis.ok(t, "reset", "tenant:acme"), "Reset tenant:acme under login.", "Not kept, whose use is kept in a book")
	wants(t, onPage.ok(t, "reset", "tenant:acme"), "Reset tenant:acme under login.", "Not kept, plan, whose use is kept in a book")
	b.flush(t)
	wants(t, squeeze(b.ops.ok(t, "quota", "usage", "--limit", "kept")), "tenant:acme "+time.Now().UTC().Format(time.DateOnly)+" 8")

	// While PostgreSQL is away, the page says so.
	registry := b.book.Store().Registry()
	registry.Report(store.Event{Kind: quota.EventNoticesDead, Node: "billing", Count: 1})
	registry.Report(store.Event{Kind: quota.EventLedgerOut, Class: quota.ClassLedger})
	state := func(want string, out bool) {
		t.Helper()
		wait.Until(t, "the store is "+want, func() bool { // it is remembered for a second
			o := decode[pageapi.Overview](t, onPage.ok(t, "top", "--json"))
			return o.Store.State == want && (o.Store.Ledger != nil) == out
		})
	}
	state("degraded", true)
	wants(t, onPage.ok(t, "top"), "store: degraded, ledger out since")
	registry.Report(store.Event{Kind: quota.EventLedgerBack})
	state("ok", false)
}
