package adapter_test

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Nothing of a request is left in a Scratch for the next one: decisions in one Scratch are those in
// memory of their own, whatever was decided before.
func TestOneScratchForManyDecisions(t *testing.T) {
	t.Parallel()
	header := func(n int64, name string) core.Limit { return core.PerDay(n).By(keyfuncs.Header(name)).Named(name) }
	limiters := func() (all []*adapter.Limiter) {
		for _, limits := range [][]core.Limit{
			{header(3, "A")},
			{header(3, "A").OnMissingKey(core.DenyRequest)},
			{header(3, "A").OnMissingKey(core.DenyRequest).Shadow()},
			{header(3, "A"), header(5, "B").Shadow()},
			{header(3, "A").CostBy(func(r keyfuncs.Request) int64 {
				_, two := r.Header("B", 0)
				return map[bool]int64{false: 1, true: 2}[two]
			})},
			{header(5, "A").Estimate(2)},
		} {
			all = append(all, adapter.New(core.ForLimits(core.NewMemory(), limits), "test"))
		}
		return all
	}
	fresh, reusing := limiters(), limiters()
	var scratch adapter.Scratch
	denied := 0
	for i := range 600 {
		r := httptest.NewRequest("GET", "/", nil)
		for j, name := range []string{"A", "B"} {
			for line := range i / (3 * (j + 1)) % 3 { // none, one, or two, which are ambiguous
				r.Header.Add(name, fmt.Sprint(i%4, line))
			}
		}
		var want, got adapter.Context
		n := i * 7 % len(fresh)
		fresh[n].Decide(request{r}, &want, nil)
		reusing[n].DecideIn(&scratch, request{r}, &got, nil)
		if !want.Decision.Allowed {
			denied++
		}
		must.Equal(t, fmt.Sprintf("request %d, limiter %d", i, n), describe(&got.Decision), describe(&want.Decision))
	}
	if denied < 100 || denied > 500 {
		t.Errorf("%d of 600 requests were denied: there should be enough of both", denied)
	}
}

func describe(d *core.Decision) string {
	text := fmt.Sprint(d.Allowed, d.Reason, d.Ambiguous(), d.Missing())
	for _, r := range d.Results() {
		text += fmt.Sprint(" ", r.Rule.Name, r.Allowed, r.Remaining, r.Shadow, r.Reason)
	}
	return text
}
