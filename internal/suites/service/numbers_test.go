package service_test

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

// sentNumbers are the fields of store.Numbers, and why an answer of the service does not have one.
var sentNumbers = map[string]string{
	"Algorithm": "", "Quota": "", "Window": "", "Burst": "", "Soft": "", "Wait": "", "Calendar": "",
	"Whole":      "what other classes of requests may use is nobody's business, beyond that this one may use less",
	"Jitter":     "when a window ends is said, and not how that was found",
	"Debt":       "the service charges, and says what is left",
	"HasDebt":    "the service charges, and says what is left",
	"Divided":    "the service divides, and says how a client stands to its share",
	"Guaranteed": "the service keeps it free",
	"FromUse":    "when a window ends is said, and so when one that has not begun would",
	"Once":       "the service remembers operations",
	"Repeats":    "the service counts them",
	"Block":      "the service counts denials, and says when a block ends",
}

// The rules in decisions of a client have the numbers of the policy: a field that is forgotten on the way would be
// missing in headers and metrics.
func TestTheClientHasTheNumbersOfThePolicy(t *testing.T) {
	t.Parallel()
	set := must.Get(policy.Parse("limits.yaml", []byte(`
policies:
  all:
    limits:
      bucket: {limit: 10/second burst 20 wait 500ms, by: everyone}
      fixed: {limit: 100/hour fixed soft 80, by: everyone}
      month: {limit: 1000/month Europe/Berlin, by: everyone}
      billing: {limit: 1000/day UTC, by: everyone}
      running: {limit: concurrent 3 lease 30s, by: everyone}
      log: {limit: 5/15m log, by: everyone}
`)))(t)
	by := must.Get(service.New(service.Config{Policies: set, Store: core.NewMemory()}))(t)
	server := httptest.NewServer(by)
	defer server.Close()
	remote := must.Get(client.New(client.Config{URL: server.URL, Timeout: patience, OnOutage: client.OnOutage{Action: core.Deny}}))(t)
	ask := func(policies core.Policies, s core.Store) []core.LimitResult {
		d := must.Get(policies.Limiter(core.Config{Store: s}, "all"))(t).AllowKey(t.Context(), "k", 1)
		d.Settle(core.Outcome{})
		return d.Results()
	}
	here, there := ask(set, core.NewMemory()), ask(remote, remote.Store())
	if len(here) != len(there) || len(here) != 6 {
		t.Fatalf("%d and %d results", len(here), len(there))
	}
	of := reflect.TypeFor[store.Numbers]()
	for i := range of.NumField() {
		name := of.Field(i).Name
		why, known := sentNumbers[name]
		if !known {
			t.Errorf("Numbers have a field %s: the service has to send it, and the client to read it; or say here why not", name)
		}
		if why != "" {
			continue
		}
		set := false
		for k := range here {
			number := func(r *core.LimitResult) string {
				if name == "Calendar" { // time zones are loaded by each side
					return r.Rule.Calendar.Unit.String() + " " + r.Rule.Calendar.Location.String()
				}
				return fmt.Sprint(reflect.ValueOf(r.Rule.Numbers).Field(i))
			}
			if got, want := number(&there[k]), number(&here[k]); got != want {
				t.Errorf("%s of %s: got %s, want %s", name, here[k].Rule.Name, got, want)
			}
			set = set || !reflect.ValueOf(here[k].Rule.Numbers).Field(i).IsZero()
		}
		if !set {
			t.Errorf("no limit of the policy sets %s", name)
		}
	}
}
