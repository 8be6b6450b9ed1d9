package redisstore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Somebody who gives Redis more than a second, such as an operator with the command's --timeout, has it.
func TestTheExchangeWaitsAsLongAsItsCaller(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.ClientWith(t, &redis.Options{ReadTimeout: time.Minute, MaxRetries: -1})
	e := redisstore.New(client).Exchange()
	publish(t, e, "a", "of a", time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server.Freeze(t)
	time.AfterFunc(1500*time.Millisecond, func() { server.Thaw(t) })
	snapshots, err := e.Collect(ctx)
	if err != nil || !slices.EqualFunc(snapshots, []string{"of a"}, func(s []byte, text string) bool { return string(s) == text }) {
		t.Errorf("collected %q, %v", snapshots, err)
	}
}
