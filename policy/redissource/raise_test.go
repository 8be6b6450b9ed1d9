package redissource_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/redissource"
)

// A limit that is raised helps at once, also a client that was denied a moment ago.
func TestARaisedLimitCountsOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	client := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	ctx, key := context.Background(), redistest.Prefix(t)+"policy"
	publish := func(n int) {
		t.Helper()
		text := fmt.Sprintf("policies: {api: {timeout: 10s, limits: {a: {limit: %d/hour fixed, by: tenant}}}}", n)
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
