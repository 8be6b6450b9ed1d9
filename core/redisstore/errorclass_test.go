package redisstore_test

import (
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A cached denial is repeated for its own class of requests only.
func TestDenialsAreOfTheirClass(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	limit := core.PerDay(10).Named("classes").Reserve(0.5, keyfuncs.Methods("POST"))
	upper := mustRule(t, limit)
	lower, err := storetest.LowerRule(limit)
	if err != nil {
		t.Fatal(err)
	}
	take(t, store, check("k", &lower, 5))
	for n := range 3 {
		if got := take(t, store, check("k", &lower, 1))[0]; got.Allowed || got.Cached != (n > 0) {
			t.Errorf("request %d of the lower class: %+v", n, got)
		}
		if got := take(t, store, check("k", upper, 1))[0]; !got.Allowed || got.Remaining != int64(4-n) {
			t.Errorf("request %d of the upper class: %+v", n, got)
		}
	}
}
