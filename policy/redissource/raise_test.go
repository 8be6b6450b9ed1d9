package redissource_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
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
		if err := redissource.Publish(ctx, client, key, policy.File{Name: "x", Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	publish(5)
	set, err := policy.From(redissource.New(client, key))
	if err != nil {
		t.Fatal(err)
	}
	l, err := set.Limiter(core.Config{Store: redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})}, "api")
	if err != nil {
		t.Fatal(err)
	}
	asks := func(allowed, denied int) {
		t.Helper()
		for i := range allowed + denied {
			if d := l.AllowKey(ctx, "k", 1); d.Allowed != (i < allowed) {
				t.Fatalf("number %d: %v", i, d)
			}
		}
	}
	asks(5, 3)
	publish(7)
	if err := set.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	asks(2, 2)
	publish(3)
	if err := set.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	asks(0, 2)
}
