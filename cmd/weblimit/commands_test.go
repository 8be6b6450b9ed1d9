package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/edge"
)

// The page of an application and its Redis give the same answers, also for limits whose windows
// depend on the key, on a calendar or on a penalty.
func TestBothBackendsSayTheSame(t *testing.T) {
	t.Parallel()
	a := startShared(t)
	edge.AwayFrom(time.Hour, time.Minute) // or what is used in an hour is of two
	a.ask(t, "user:42", 20)
	a.published(t, "user:42", 20)
	page, direct := a.onPage.run(t, "peek", "user:42"), a.onRedis.run(t, "peek", "user:42")
	if page.code != exitDenied || direct.code != exitDenied {
		t.Errorf("a denied client: exit codes %d and %d, want %d: %s%s", page.code, direct.code, exitDenied, page.err, direct.err)
	}
	digits := regexp.MustCompile(`[0-9]+[smhd][0-9smhd]*`) // time passes
	direct.out, _, _ = strings.Cut(direct.out, "\nKnown on Redis: 4 limits")
	if p, d := digits.ReplaceAllString(page.out, "T"), digits.ReplaceAllString(direct.out, "T"); squeeze(p) != squeeze(d) {
		t.Errorf("the page says\n%s\nRedis\n%s", page.out, direct.out)
	}
	wants(t, direct.out, "Denied by login.", "would deny", "95", "995")
	for _, c := range []call{a.onPage, a.onRedis} {
		wants(t, c.ok(t, "top"), "1 instance", "login", "trial", "shadow", "Most denied", "user:42", "Would have been denied")
		e := c.run(t, "explain", "user:42")
		check.Equal(t, "explain: exit code", e.code, exitDenied)
		wants(t, e.out, "login: denied (5 per 1h, token bucket)", "20 requests, 15 denied", "18 would have been denied",
			"last denial", "99.5 % of 1 client stay within 20 per 1h; 0 % stay within the present 2", "per calendar month", "fits in")
		wants(t, c.ok(t, "suggest", "trial"), "99.5 % of 1 client stay within 20 per 1h", "shadow", "0 %")
	}
}

// squeeze removes blanks, since columns are as wide as what is in them.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// Actions by one way are in force for the application and seen by the other.
func TestActions(t *testing.T) {
	t.Parallel()
	a := startShared(t)
	a.ask(t, "user:1", 1)
	a.published(t, "user:1", 1)
	for _, c := range []struct{ act, look call }{{a.onPage, a.onRedis}, {a.onRedis, a.onPage}} {
		wants(t, c.act.ok(t, "blocks"), "Nobody is blocked.")
		wants(t, c.act.ok(t, "block", "user:1", "--for", "10m", "--limit", "login"), "Blocked user:1 under login, until")
		if n := a.ask(t, "user:1", 3); n != 0 {
			t.Errorf("blocked, and %d of 3 requests pass", n)
		}
		for _, args := range [][]string{{"peek", "user:1"}, {"explain", "user:1"}} {
			if r := c.look.run(t, args...); r.code != exitDenied || !strings.Contains(r.out, "Blocked for another") {
				t.Errorf("%s of a blocked client: exit code %d\n%s%s", args, r.code, r.out, r.err)
			}
		}
		wants(t, c.act.ok(t, "blocks"), "user:1", "login", "set by hand")
		wants(t, c.act.ok(t, "unblock", "user:1"), "Unblocked user:1 under login, monthly, seasonal, trial.")
		wants(t, c.act.ok(t, "reset", "user:1", "--limit", "login"), "Reset user:1 under login.")
		time.Sleep(1100 * time.Millisecond) // redisstore.DenialCache.Age
		if n := a.ask(t, "user:1", 6); n != 5 {
			t.Errorf("after a reset, %d requests pass, want 5", n)
		}
		wants(t, c.act.ok(t, "reset", "user:1"), "Reset user:1 under login, monthly, seasonal, trial.")
	}
}

// Somebody who writes a user's name means the key of the limit. What no limit counts is refused.
func TestActionsOnWhatAKeyIsMadeOf(t *testing.T) {
	t.Parallel()
	a := startShared(t)
	a.ask(t, "user:1", 1)
	a.published(t, "user:1", 1)
	for i, c := range []call{a.onPage, a.onRedis} {
		user := []string{"alice", "bob"}[i]
		wants(t, c.ok(t, "block", user, "--for", "10m", "--limit", "login"), "Blocked user:"+user+" under login, until")
		if n := a.ask(t, "user:"+user, 3); n != 0 {
			t.Errorf("blocked, and %d of 3 requests pass", n)
		}
		wants(t, c.ok(t, "unblock", user), "Unblocked user:"+user+" under login")
		for _, args := range [][]string{
			{"block", "ip:192.0.2.7", "--for", "10m", "--limit", "login"},
			{"unblock", "ip:192.0.2.7", "--limit", "login"},
			{"reset", "ip:192.0.2.7"},
		} {
			r := c.run(t, args...)
			if r.code == 0 || !strings.Contains(r.err, "by user") || !strings.Contains(r.err, "looks like user:42") {
				t.Errorf("%s: exit code %d\n%s%s", args, r.code, r.out, r.err)
			}
		}
	}
}

// Outages and breakers that instances publish, and instances that have fallen silent, come first.
func TestTopShowsInstancesInTrouble(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := pageapi.Overview{
		At: at,
		Instances: []pageapi.Instance{
			{Name: "web-1", State: "outage", Since: at.Add(-time.Minute), Class: "timeout"},
			{Name: "web-2", State: "degraded"},
			{Name: "web-3", State: "ok"},
		},
		Silent: []pageapi.Silent{{Name: "web-4", At: at.Add(-40 * time.Second)}},
		Store:  &pageapi.Health{State: "degraded"},
	}
	o.Instances[1].Open = append(o.Instances[1].Open, pageapi.Breaker{Node: "10.0.0.1:6379", Since: at.Add(-time.Second), Class: "connection"})
	var b bytes.Buffer
	writeOverview(&show.Out{W: &b}, &connection{where: "here"}, &o, 10)
	want := `here · 3 instances · 03:04:05 UTC · store: degraded
web-1: store out since 03:03:05 UTC (timeout)
web-2: does not ask 10.0.0.1:6379 since 03:04:04 UTC (connection)
web-4: silent, last seen 40s ago

No limit has decided anything yet.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// During a roll-out, top says which instances decide by which version of the policy.
func TestTopShowsVersions(t *testing.T) {
	t.Parallel()
	o := pageapi.Overview{Instances: []pageapi.Instance{
		{Name: "web-1", State: "ok", Versions: []string{"v1#aa"}},
		{Name: "web-2", State: "ok", Versions: []string{"v2#bb"}},
		{Name: "web-3", State: "ok", Versions: []string{"v1#aa"}},
		{Name: "web-4", State: "ok"},
	}}
	var b bytes.Buffer
	writeOverview(&show.Out{W: &b}, &connection{where: "here"}, &o, 10)
	wants(t, b.String(), "policy v1#aa: web-1, web-3\npolicy v2#bb: web-2\n")
	b.Reset()
	o.Instances[1].Versions[0] = "v1#aa"
	writeOverview(&show.Out{W: &b}, &connection{where: "here"}, &o, 10)
	wants(t, b.String(), "policy v1#aa\n")
	if strings.Contains(b.String(), "web-1") {
		t.Errorf("one version, and instances are named:\n%s", &b)
	}
	b.Reset()
	writeExplanation(&show.Out{W: &b}, time.Now(), &pageapi.Key{Key: "user:1", Limits: []pageapi.State{{
		Limit: "login", State: "denied", Versions: []string{"v1#aa", "v2#bb"}, LastDenial: &pageapi.Denial{At: time.Now(), Why: "Used up.", Version: "v1#aa"},
	}}}, new(pageapi.Limits))
	wants(t, b.String(), "policy       v1#aa or v2#bb: instances have different versions", "Used up. By policy v1#aa.")
}
