package core_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A dialer derives a context of that which a store is given, with a deadline of its own. If that passes as the call ends, its
// timer asks for a value once more, after the call and while others are made: in a goroutine of the process, which a panic would end.
func TestTheContextThatAStoreWasGivenCanBeAskedLater(t *testing.T) {
	t.Parallel()
	s := newFlaky(false)
	var given []context.Context
	s.asked = func(ctx context.Context) {
		if ctx.Value(tag{}) == nil {
			t.Error("no value in the call")
		}
		given = append(given, ctx)
	}
	l := limiterOn(t, s, core.PerHour(100).By(keyfuncs.Everyone()))
	const requests = 20 // more than what is kept of earlier ones
	for i := range requests {
		l.AllowKey(context.WithValue(t.Context(), tag{}, i), "k", 1)
	}
	for i, ctx := range given {
		check.Equal(t, fmt.Sprintf("request %d: the value afterwards", i), ctx.Value(tag{}), any(i))
	}
	check.Equal(t, "requests", len(given), requests)
}
