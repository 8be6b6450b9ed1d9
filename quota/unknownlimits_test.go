package quota

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
)

// Trap 65, success without effect: a misspelt name of a limit, of which nothing is kept, or nothing exported.
func TestNamesOfLimitsInTheConfiguration(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	export := func(limits ...string) []Export { return []Export{{Name: "billing", Send: e.Send, Limits: limits}} }
	both := Config{Store: fresh(), Limits: []string{"plan", "other"}, Exports: export("paln")}
	check.Fails(t, "an export of a limit that is not kept", both.complete(), `export "billing": Config.Limits leaves out the limit "paln", of which nothing is kept: it has plan, other; did you mean "plan"?`)
	for name, tt := range map[string]struct {
		config Config
		want   string // in the event, or "" for none
	}{
		"kept":                    {Config{Limits: []string{"plan"}, Exports: export("plan")}, ""},
		"of another process":      {Config{Limits: []string{"plan", "elsewhere"}, Exports: export("elsewhere")}, ""},
		"a misspelt limit":        {Config{Limits: []string{"paln"}}, `Config.Limits has "paln", and no process has a calendar limit of this name; did you mean "plan"?`},
		"a misspelt export":       {Config{Exports: export("paln")}, `Config.Exports: export "billing": Limits has "paln", and no process has a calendar limit of this name; did you mean "plan"?`},
		"a limit by another name": {Config{Limits: []string{"monthly"}}, `has "monthly", and no process has a calendar limit of this name: the limits are plan`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, l := fresh(), memledger.New(defaultLevels)
				var said []string
				m.OnEvent(func(e core.Event) {
					if e.Kind == EventLimitUnknown {
						said = append(said, e.Err.Error())
					}
				})
				elsewhere := monthly(10).Named("elsewhere")
				rule := must.Get(elsewhere.Rule())(t)
				must.OK(t, l.Declare(t.Context(), []ledger.Declaration{ledger.DeclarationOf(&rule)}))
				tt.config.Store, tt.config.FlushEvery = m, maxFlushEvery
				b := bookOn(t, l, tt.config)
				time.Sleep(time.Hour)
				synctest.Wait()
				if len(said) > 0 {
					t.Errorf("before the process has a limiter: %q", said)
				}
				limiterOn(t, b.Store(), monthly(100), core.PerMinute(5).By(keyfuncs.Everyone()).Named("minute"))
				time.Sleep(time.Hour)
				synctest.Wait()
				if text := strings.Join(said, "; "); tt.want == "" && len(said) > 0 || tt.want != "" && (len(said) != 1 || !strings.Contains(text, tt.want)) {
					t.Errorf("said %q, want %q, once", text, tt.want)
				}
				closeBook(t, b)
			})
		})
	}
}
