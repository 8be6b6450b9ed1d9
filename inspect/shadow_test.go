package inspect_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
)

// What a limit in shadow mode would have denied is with the limit, among the clients, and where a client is
// explained, also when its next request fits again.
func TestWhatWouldBeDeniedIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := start(t, core.NewMemory())
		for range 4 { // of the 5 that are enforced, and the 2 on trial
			in.request("alice")
		}
		in.request("bob")

		type would struct {
			WouldDeny int64 `json:"would_deny"`
		}
		type shadowLimit struct {
			Name    string
			Shadow  bool
			Minute  would
			Suggest *struct {
				Quota  int64
				Within float64
			}
		}
		var o struct {
			Limits    []shadowLimit
			Denied    []struct{ Key string }
			WouldDeny []struct {
				Limit, Key string
				Minute     would
				Denial     struct {
					Why    string
					Shadow bool
				}
			} `json:"would_deny"`
		}
		trial := func() *shadowLimit {
			in.must(t, "GET", "api/v1/overview", "", &o)
			if i := slices.IndexFunc(o.Limits, func(l shadowLimit) bool { return l.Name == "trial" }); i >= 0 {
				return &o.Limits[i]
			}
			t.Fatalf("the trial is missing in %+v", o.Limits)
			return nil
		}
		time.Sleep(2 * time.Second) // until the second of both has ended
		l := trial()
		if !l.Shadow || l.Minute.WouldDeny != 2 || l.Suggest == nil || l.Suggest.Quota != 4 || l.Suggest.Within != 0.5 {
			t.Errorf("the limit is %+v, with the suggestion %+v; want 2 requests that it would deny, and half of the clients within 2", l, l.Suggest)
		}
		if len(o.Denied) != 0 || len(o.WouldDeny) != 1 || o.WouldDeny[0].Key != "header.x-user:alice" || o.WouldDeny[0].Limit != "trial" ||
			o.WouldDeny[0].Minute.WouldDeny != 2 || !o.WouldDeny[0].Denial.Shadow || !strings.HasPrefix(o.WouldDeny[0].Denial.Why, "Used up: nothing left of 2 per 1h") {
			t.Errorf("denied are %+v, would be denied %+v", o.Denied, o.WouldDeny)
		}

		var e explanation
		in.must(t, "POST", "api/v1/explain", `{"query":"alice"}`, &e)
		k := e.Keys[0]
		if k.Summary != "Allowed now, but trial would deny it if it were enforced." || k.Limits[1].LastDenial == nil || k.Limits[1].Used != 2 {
			t.Errorf("alice: %q, %+v", k.Summary, k.Limits)
		}
		in.must(t, "POST", "api/v1/reset", `{"key":"header.x-user:alice","limit":"trial"}`, nil)
		in.must(t, "POST", "api/v1/explain", `{"query":"alice"}`, &e)
		if k = e.Keys[0]; k.Summary != "Allowed at this moment, but trial would have denied it 2 times in the last minute if it were enforced." {
			t.Errorf("alice after a reset: %q", k.Summary)
		}
	})
}
