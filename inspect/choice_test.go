package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A limit of a choice that has no room denies nothing while another one pays.
func TestALimitThatIsPassedOverIsExplained(t *testing.T) {
	t.Parallel()
	s := core.NewMemory()
	in := start(t, s)
	tenant := keyfuncs.Header("X-User")
	plan := core.PerHour(1).FromFirstUse().By(tenant).Named("plan")
	credits := core.PerHour(2).FromFirstUse().By(tenant).Named("credits")
	l := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.First(plan, credits)}, Timeout: time.Minute, Observe: in.heavy}))
	key := keyfuncs.Encode("header.x-user", "alice")
	explain := func() (state, summary, why string) {
		var e struct {
			Keys []struct {
				State, Summary string
				Limits         []struct{ Limit, State, Why string }
			}
		}
		in.must(t, "POST", "api/v1/explain", `{"query":"alice"}`, &e)
		if len(e.Keys) != 1 {
			t.Fatalf("alice has the keys %+v", e.Keys)
		}
		k := &e.Keys[0]
		for _, l := range k.Limits {
			if l.Limit == "plan" {
				return k.State, k.Summary, l.Why
			}
		}
		t.Fatalf("plan is not explained: %+v", k)
		return "", "", ""
	}
	for range 2 {
		l.AllowKey(t.Context(), key, 1)
	}
	state, _, why := explain()
	check.Equal(t, "state while credits pay", state, "allowed")
	if !strings.HasSuffix(why, "Until then credits pays.") {
		t.Errorf("plan is explained as %q", why)
	}
	l.AllowKey(t.Context(), key, 1)
	state, summary, _ := explain()
	check.Equal(t, "state when nothing is left", state, "denied")
	check.Contains(t, "summary", summary, "Denied by ")
}
