package inspect_test

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Who looks a client up reads which version of the policy decides, and which has denied it.
func TestExplainSaysTheVersion(t *testing.T) {
	t.Parallel()
	in := start(t, core.NewMemory())
	l := core.Must(core.New(core.Config{
		Store: in.store, Observe: in.heavy, Version: "v7#0123456789ab",
		Limits: []core.Limit{core.PerHour(1).By(keyfuncs.User("user")).Named("login")},
	}))
	for range 2 {
		l.AllowKey(t.Context(), "user:42", 1)
	}
	_, explained := in.call(t, "POST", "api/v1/explain", `{"query":"user:42"}`)
	_, seen := in.call(t, "GET", "api/v1/overview", "")
	for name, answer := range map[string]string{"explain": explained, "overview": seen} {
		flat := strings.Join(strings.Fields(answer), "")
		if !strings.Contains(flat, `"versions":["v7#0123456789ab"]`) || !strings.Contains(flat, `"version":"v7#0123456789ab"`) {
			t.Errorf("%s does not say the version:\n%s", name, answer)
		}
	}
}
