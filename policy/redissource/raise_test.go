package redissource_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/redissource"
)

// A limit that is raised helps at once, also a client that was denied a moment ago.
func TestARaisedLimitCountsOnRedis(t *testing.T) {
	t.Parallel()
	client := clientOf(t, redistest.Shared(t))
	ctx, key := context.Background(), redistest.Prefix(t)+"policy"
	publish := func(n int) {
		t.Helper()
		text := fmt.Sprintf("policies: {api: {timeout: 1m, limits: {a: {limit: %d/10000h fixed, by: tenant}}}}", n)
		must.OK(t, redissource.Publish(ctx, client, key, policy.File{Name: "x", Text: []byte(text)}))
	}
	publish(5)
	set := must.Get(policy.From(redissource.New(client, key)))(t)
	l := must.Get(set.Limiter(core.Config{Store: redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})}, "api"))(t)
	asks := func(allowed, denied int) {
		t.Helper()
		for i := range allowed + denied {
			must.Equal(t, fmt.Sprint("allowed, number ", i), l.AllowKey(ctx, "k", 1).Allowed, i < allowed)
		}
	}
	asks(5, 3)
	publish(7)
	must.OK(t, set.Reload(ctx))
	asks(2, 2)
	publish(3)
	must.OK(t, set.Reload(ctx))
	asks(0, 2)
}
