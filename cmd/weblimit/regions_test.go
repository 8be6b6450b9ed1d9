package main

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
)

// The page of a region says whether home answers, and what was leased; so does the command.
func TestRegions(t *testing.T) {
	t.Parallel()
	local, heavy := core.NewMemory(), top.New(top.Config{})
	l := must.Get(core.New(core.Config{Store: local, Observe: heavy, Limits: []core.Limit{core.PerHour(5).By(keyfuncs.User("id")).Named("login")}}))(t)
	l.AllowKey(t.Context(), "user:42", 2)
	page := must.Get(inspect.New(inspect.Config{Store: local, Top: heavy, Users: []inspect.User{{Name: "ops", Password: password, May: inspect.Act}}}))(t)
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	c := call{env: map[string]string{"WEBLIMIT_URL": server.URL, "WEBLIMIT_USER": "ops", "WEBLIMIT_PASSWORD": password}}
	regional.Add(local.Registry(), func() regional.Stats {
		return regional.Stats{
			Region: "eu", Keys: 1, Home: regional.Home{Trip: 80 * time.Millisecond},
			Limits: map[string]regional.Counts{"login": {Leased: 1200, Spent: 1100, Messages: 12, Waited: 1, Early: 3}},
		}
	})
	regional.Add(local.Registry(), func() regional.Stats {
		return regional.Stats{
			Region: "us", Keys: 2, Home: regional.Home{Away: time.Date(2026, 11, 28, 9, 41, 21, 0, time.UTC), Class: store.ClassTimeout},
			Limits: map[string]regional.Counts{"login": {Messages: 2, Failed: 1, Lost: 1, Skewed: 30}, "quiet": {}},
		}
	})
	text := squeeze(c.ok(t, "top", "--rows", "1"))
	wants(t, text, "region eu: home answers within 80ms, 1 key above the floor", "region us: home has not answered since 09:41:21 UTC (timeout), 2 keys above the floor",
		"Leased from home by eu", "login 1,200 1,100 12 1 3", "login 0 0 2 0 0 1 lease not answered, 1 unit lost on the way, 30 units returned, as clocks differ", "… and 1 more")
	wants(t, squeeze(c.ok(t, "explain", "user:42")), "region eu: home answers within 80ms", "leased 1,200 leased, 1,100 spent, 12 messages, 1 request waited, 3 denied early, of all clients",
		"region us: home has not answered since 09:41:21 UTC (timeout)")
}
