package main_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

const regionalPolicy = `
policies:
  api:
    limits:
      client: {limit: 100/10000h fixed, by: ip}
  login:
    timeout: 1m
    limits:
      login: {limit: 5/10000h fixed, by: ip, regions: home, on_outage: deny}
  code:
    timeout: 200ms
    limits:
      code: {limit: 5/10000h fixed, by: ip, regions: home, on_outage: deny}
`

// Two regions, each with a Redis of its own, around a home: a client that asks in both gets its limit once. While home is
// away both go on and stay ready, even those that leave in an outage, and what home decides is denied.
func TestRegions(t *testing.T) {
	t.Parallel()
	home := redistest.StartTCP(t)
	var all []*instance
	for _, region := range []string{"eu", "us"} {
		own := redistest.StartTCP(t)
		all = append(all, start(t, nil, "--policy", write(t, "limits.yaml", regionalPolicy), "--redis", "redis://"+own.Addr(), "--region", region, "--regions", "2",
			"--home-redis", "redis://"+home.Addr(), "--home-prefix", "home:", "--region-floor", "20", "--ready-in-outage=false"))
	}
	granted := 0
	for _, in := range all {
		granted += in.allows(t, "192.0.2.1", 150)
	}
	if granted < 20 || granted > 100 {
		t.Errorf("both regions grant %d of 100", granted)
	}
	asked := func(in *instance, policy string) string {
		text := strings.NewReader(`{"policy":"` + policy + `","request":{"client_ip":"192.0.2.1","method":"GET"}}`)
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+in.data+"/v1/check", text))(t)
		r.Header.Set("Content-Type", "application/json")
		_, body, err := ask(http.DefaultClient, r)
		must.OK(t, err)
		return body
	}
	status := func(in *instance) string {
		_, text := in.get(t, "/status")
		return regexp.MustCompile(`\s`).ReplaceAllString(text, "")
	}
	logins := 0
	for i := range 20 {
		if strings.Contains(asked(all[i%2], "login"), `"allowed":true`) {
			logins++
		}
	}
	check.Equal(t, "logins in both regions", logins, 5)
	wants(t, status(all[1]), `"region":{"name":"us","regions":2,"home":"up"}`)

	home.Kill()
	for _, in := range all {
		wants(t, asked(in, "code"), `"allowed":false`, `"outage":true`)
		if n := in.allows(t, "192.0.2.7", 40); n != 10 { // the region's part of the floors
			t.Errorf("while home is away, a region grants %d of a floor of 10", n)
		}
		wait.Until(t, "the region knows that home is away", func() bool { return strings.Contains(status(in), `"home":"away"`) })
		if code, body := in.get(t, "/readyz"); code != 200 || !strings.Contains(body, `"ready"`) {
			t.Errorf("while home is away: %d %s", code, body)
		}
	}
	home.Restart(t)
	for _, in := range all {
		wait.Until(t, "home is back", func() bool { return strings.Contains(status(in), `"home":"up"`) })
	}
}
