package core_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// One client asks for fifty times its share, and a hundred for half of theirs: those are not denied, and the busy one gets
// what they leave.
func TestFairLightClientsAreNotDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := core.PerSecond(1000).By(keyfuncs.Everyone()).Named("all").Fair(core.Shares{By: keyfuncs.Header("X-Client")})
		l := core.ForLimits(core.NewMemory(), []core.Limit{limit})
		heavy, heavyGot, light, lightDenied := 0, 0, 0, 0
		for tick := range 10_000 { // of a millisecond
			ask := func(client string) bool {
				d := l.Allow(&request{headers: map[string]string{"X-Client": client}})
				return d.Allowed
			}
			if tick%2 == 0 { // 500 a second of a hundred clients
				light++
				if !ask(string(rune('A' + tick/2%100))) {
					lightDenied++
				}
			}
			for range 2 + tick%2 { // 2,500 a second
				heavy++
				if ask("heavy") {
					heavyGot++
				}
			}
			time.Sleep(time.Millisecond)
		}
		if lightDenied > 0 {
			t.Errorf("%d of %d requests of light clients were denied", lightDenied, light)
		}
		if heavyGot < 4900 || heavyGot > 6100 {
			t.Errorf("the heavy client got %d of %d, want what the light ones left: 5000 and the burst", heavyGot, heavy)
		}
	})
}
