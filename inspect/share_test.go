package inspect_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// explained is what one limit says of a client.
type explained struct {
	Limit, State, Why, Standing string
	Share                       int64
	LastDenial                  *struct{ Why string } `json:"last_denial"`
}

// explainedBy returns what a limit says of a client that is looked up.
func explainedBy(t *testing.T, in *instance, query, limit string) explained {
	t.Helper()
	var e struct {
		Keys []struct{ Limits []explained }
	}
	in.must(t, "POST", "api/v1/explain", `{"query":"`+query+`"}`, &e)
	for _, k := range e.Keys {
		for _, l := range k.Limits {
			if l.Limit == limit {
				return l
			}
		}
	}
	t.Fatalf("%s is not explained: %+v", limit, e)
	return explained{}
}

// Of a limit that clients divide operators see who is over a share, and why that client was denied.
func TestWhoIsOverItsShareIsExplained(t *testing.T) {
	t.Parallel()
	s := core.NewMemory()
	in := start(t, s)
	l := must.Get(core.New(core.Config{Store: s, Timeout: time.Minute, Observe: in.heavy, Limits: []core.Limit{
		core.PerHour(100).By(keyfuncs.Everyone()).Named("capacity").Fair(core.Shares{By: keyfuncs.Tenant("tenant")}),
		core.PerHour(100).By(keyfuncs.Everyone()).Named("by-plan").Fair(core.Shares{By: keyfuncs.Tenant("tenant"), Of: func(keyfuncs.Request) core.Share { return core.Share{} }}),
	}}))(t)
	l.Allow(keyfuncs.Values{"tenant": "light"})
	for range 100 {
		l.Allow(keyfuncs.Values{"tenant": "heavy"})
	}
	heavy := explainedBy(t, in, "tenant:heavy", "capacity")
	check.All(t, "the heavy client", []any{heavy.State, heavy.Standing, heavy.Share > 40 && heavy.Share < 51}, "denied", "over share", true)
	check.Contains(t, "why", heavy.Why, "Over its share of ")
	check.Contains(t, "the last denial", heavy.LastDenial.Why, "Over its share, then ")
	light := explainedBy(t, in, "light", "capacity")
	check.All(t, "the light client", []any{light.State, light.Standing}, "allowed", "within share")
	weighed := explainedBy(t, in, "heavy", "by-plan")
	check.All(t, "by a plan that only requests tell", []any{weighed.State, weighed.Standing}, "unknown", "")
	check.Contains(t, "why", weighed.Why, "is not known. The last denial says how it stood then.")

	var clients struct{ Clients []struct{ Key string } }
	in.must(t, "GET", "api/v1/clients?limit=capacity&by=denied", "", &clients)
	if len(clients.Clients) != 1 || clients.Clients[0].Key != "tenant:heavy" {
		t.Errorf("denied under capacity: %+v", clients)
	}
}

// No client has a bucket of the limit, so that to reset or block it there would be an answer without an effect.
func TestClientsThatDivideALimitAreNotBlockedThere(t *testing.T) {
	t.Parallel()
	s := core.NewMemory()
	in := start(t, s)
	l := must.Get(core.New(core.Config{Store: s, Timeout: time.Minute, Observe: in.heavy, Limits: []core.Limit{
		core.PerHour(100).By(keyfuncs.Everyone()).Named("capacity").Fair(core.Shares{By: keyfuncs.Tenant("tenant")}),
		core.PerHour(100).By(keyfuncs.Tenant("tenant")).Named("own"),
	}}))(t)
	l.Allow(keyfuncs.Values{"tenant": "heavy"})
	for action, body := range map[string]string{
		"block": `{"key":"tenant:heavy","limit":"capacity","seconds":60}`, "reset": `{"key":"tenant:heavy","limit":"capacity"}`, "unblock": `{"key":"tenant:heavy","limit":"capacity"}`,
	} {
		status, text := in.call(t, "POST", "api/v1/"+action, body)
		if status != http.StatusUnprocessableEntity || !strings.Contains(text, "Clients divide the limit capacity") {
			t.Errorf("%s: %d %s", action, status, text)
		}
	}
	status, text := in.call(t, "POST", "api/v1/block", `{"key":"tenant:heavy","seconds":60}`)
	if status != http.StatusOK || !strings.Contains(text, `"own"`) || strings.Contains(text, "capacity") {
		t.Errorf("block: %d %s", status, text)
	}
}
