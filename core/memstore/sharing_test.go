package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Keys made up under a limit that clients divide push out neither clients without units nor blocks by hand.
func TestThrowAwayKeysOfADividedLimitPushOutNobody(t *testing.T) {
	t.Parallel()
	m, _ := small(t, 1<<10)
	short := mustRule(t, core.PerMinute(10).Named("short"))
	divided := must.Get(store.NewRule("divided", store.Numbers{Algorithm: store.TokenBucket, Quota: 100, Window: time.Hour, Divided: true}))(t)
	for i := range 100 {
		take(t, m, fmt.Sprint("limited", i), short, 10)
		must.OK(t, m.Block(t.Context(), []core.Check{{Key: []byte(fmt.Sprint("blocked", i)), Rule: short}}, time.Minute))
	}
	for i := range 8 << 10 {
		name := []byte(fmt.Sprint("throwaway", i))
		checks := []core.Check{{Key: name, Rule: &divided, Cost: 1, Share: &store.Share{Key: name, User: name, Weight: 1, Maximum: 50}}}
		must.OK(t, m.Take(t.Context(), checks, make([]core.Result, 1)))
	}
	for i := range 100 {
		if take(t, m, fmt.Sprint("limited", i), short, 1).Allowed {
			t.Errorf("limited%d was pushed out and got a fresh budget", i)
		}
		if take(t, m, fmt.Sprint("blocked", i), short, 1).Allowed {
			t.Errorf("the block of blocked%d was pushed out", i)
		}
	}
}
