package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestMoveSlotTakesTheKeysAlong(t *testing.T) {
	t.Parallel()
	c := StartClusterOf(t, 2, 1)
	ctx := t.Context()
	slot := slotOf(t, c, "{moved}")
	from := c.MasterOf(t, slot)
	to := c.Masters()[0]
	if to == from {
		to = c.Masters()[1]
	}
	client := c.Client(t)
	for i := range 250 { // more than two batches
		must.OK(t, client.Set(ctx, fmt.Sprint("{moved}", i), i, 0).Err())
	}

	half := c.BeginMove(t, slot, to)
	half.Key("{moved}7", "{moved}none")
	check.Equal(t, "Keys(3)", half.Keys(3), 3)
	for _, refusal := range []struct {
		name string
		err  error
		want string
	}{
		{"a moved key", from.Client(t).Get(ctx, "{moved}7").Err(), fmt.Sprintf("ASK %d %s", slot, to.Addr())},
		{"a new key", from.Client(t).Get(ctx, "{moved}new").Err(), fmt.Sprintf("ASK %d %s", slot, to.Addr())},
		{"a client that does not ask", to.Client(t).Get(ctx, "{moved}7").Err(), fmt.Sprintf("MOVED %d %s", slot, from.Addr())},
		{"keys none of which is here", mget(from, "{moved}7", "{moved}new"), fmt.Sprintf("ASK %d %s", slot, to.Addr())},
	} {
		if refusal.err == nil || refusal.err.Error() != refusal.want {
			t.Errorf("%s: %v, want %s", refusal.name, refusal.err, refusal.want)
		}
	}
	remaining := c.firstKey(t, from, slot)
	refusal := "TRYAGAIN "
	if Before(t, 7, 0) {
		refusal = "ASK " // the other node says TRYAGAIN then
	}
	if err := mget(from, "{moved}7", remaining); err == nil || !strings.HasPrefix(err.Error(), refusal) {
		t.Errorf("one key here, one there: %v, want %s", err, refusal)
	}
	if err := from.Client(t).Get(ctx, remaining).Err(); err != nil {
		t.Errorf("a key still here: %v", err)
	}
	for i := range 250 {
		if got, err := client.Get(ctx, fmt.Sprint("{moved}", i)).Int(); got != i || err != nil {
			t.Errorf("half way the cluster client reads %d, %v, want %d", got, err, i)
		}
	}

	half.Finish()
	if got := c.MasterOf(t, slot); got != to {
		t.Errorf("the slot is on %s, want %s", got.Addr(), to.Addr())
	}
	check.Equal(t, "keys arrived", to.Client(t).ClusterCountKeysInSlot(ctx, slot).Val(), 250)
	want := fmt.Sprintf("MOVED %d %s", slot, to.Addr())
	if err := from.Client(t).Get(ctx, "{moved}7").Err(); err == nil || err.Error() != want {
		t.Errorf("the old master says %v, want %s", err, want)
	}
	c.MoveSlot(t, slot, from) // and back
	check.Equal(t, "keys came back", from.Client(t).ClusterCountKeysInSlot(ctx, slot).Val(), 250)
}

// mget asks one node, without the retries that go-redis makes after TRYAGAIN.
func mget(node *Server, keys ...string) error {
	return node.ask(func(ctx context.Context, c *redis.Client) error { return c.MGet(ctx, keys...).Err() })
}

func (c *Cluster) firstKey(t *testing.T, node *Server, slot int) string {
	t.Helper()
	keys, err := node.Client(t).ClusterGetKeysInSlot(t.Context(), slot, 1).Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	return keys[0]
}
