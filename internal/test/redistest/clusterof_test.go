package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// slotOf asks a node for the slot of a key.
func slotOf(t *testing.T, c *Cluster, key string) int {
	t.Helper()
	slot := must.Get(c.Nodes()[0].Client(t).ClusterKeySlot(t.Context(), key).Result())(t)
	return int(slot)
}

func TestSharedClusterIsOneClusterOfThreeMastersAndReplicas(t *testing.T) {
	t.Parallel()
	c := SharedCluster(t)
	if again := SharedCluster(t); again != c {
		t.Error("another cluster")
	}
	if m, r, n := len(c.Masters()), len(c.Replicas()), len(c.Nodes()); m != 3 || r != 3 || n != 6 {
		t.Errorf("%d masters, %d replicas, %d nodes", m, r, n)
	}
	for slot, i := range map[int]int{0: 0, 5460: 0, 5461: 1, 10_921: 1, 10_922: 2, lastSlot: 2} {
		if got := c.MasterOf(t, slot); got != c.Masters()[i] {
			t.Errorf("slot %d is on %s, want master %d", slot, got.Addr(), i)
		}
	}
	client, prefix := c.Client(t), Prefix(t)
	used := map[*Server]bool{}
	for i := range 64 {
		key := fmt.Sprint(prefix, i)
		must.OK(t, client.Set(t.Context(), key, i, time.Minute).Err())
		used[c.MasterOf(t, slotOf(t, c, key))] = true
	}
	if len(used) != 3 {
		t.Errorf("64 keys lie on %d masters, want 3", len(used))
	}
}

func TestClusterRedirectsWithMoved(t *testing.T) {
	t.Parallel()
	c, key := SharedCluster(t), Prefix(t)
	slot := slotOf(t, c, key)
	master := c.MasterOf(t, slot)
	want := fmt.Sprintf("MOVED %d %s", slot, master.Addr())
	for _, node := range c.Nodes() {
		err := node.Client(t).Get(t.Context(), key).Err()
		switch {
		case node == master && !errors.Is(err, redis.Nil):
			t.Errorf("the master says %v, want redis.Nil", err)
		case node != master && (err == nil || err.Error() != want):
			t.Errorf("%s says %v, want %s", node.Addr(), err, want)
		}
	}
}

func TestClusterFailsOverToAReplicaThatHasTheData(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]struct{ begin, end func(*testing.T, *Server) }{
		"of a killed master": {func(_ *testing.T, s *Server) { s.Kill() }, func(t *testing.T, s *Server) { s.Restart(t) }},
		"of a frozen master": {func(t *testing.T, s *Server) { s.Freeze(t) }, func(t *testing.T, s *Server) { s.Thaw(t) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := StartClusterOf(t, 3, 1)
			c.DownAfter(t, time.Second)
			ctx, client := t.Context(), c.Client(t)
			const key = "{failover}"
			must.OK(t, client.Set(ctx, key, "kept", 0).Err())
			slot := slotOf(t, c, key)
			old := c.MasterOf(t, slot)
			if n, err := old.Client(t).Wait(ctx, 1, awaitTimeout).Result(); n != 1 || err != nil {
				t.Fatalf("WAIT = %d, %v", n, err)
			}
			loss.begin(t, old)
			elected := c.AwaitFailover(t, slot, old)
			if i := slices.Index(c.Masters(), old); elected != c.Replicas()[i] {
				t.Errorf("%s was elected, want the replica %s", elected.Addr(), c.Replicas()[i].Addr())
			}
			if got, err := c.Client(t).Get(ctx, key).Result(); got != "kept" || err != nil {
				t.Errorf("a new client reads %q, %v", got, err)
			}
			client.ReloadState(ctx) // by itself it would look within ten seconds
			check.OK(t, await("the old client to find the new master", func() error { return client.Get(ctx, key).Err() }))
			loss.end(t, old)
			check.OK(t, await("the old master to follow", func() error { return old.inSync(elected) }))
			if got := c.MasterOf(t, slot); got != elected || c.AwaitFailover(t, slot, old) != elected {
				t.Errorf("MasterOf = %s, want %s", got.Addr(), elected.Addr())
			}
		})
	}
}

func TestClusterServesOtherSlotsWithoutAMaster(t *testing.T) {
	t.Parallel()
	c := StartClusterOf(t, 3, 0, "--maxmemory", "77mb", nodeTimeout, "1000")
	ctx := t.Context()
	if got := c.Nodes()[2].Client(t).ConfigGet(ctx, "maxmemory").Val()["maxmemory"]; got != "80740352" {
		t.Errorf("maxmemory = %s: arguments don't reach the nodes", got)
	}
	c.Masters()[0].Kill()
	alive := c.Masters()[1].Client(t)
	must.OK(t, await("the death to be noticed", func() error {
		nodes, err := alive.ClusterNodes(ctx).Result()
		if err == nil && !strings.Contains(nodes, "master,fail ") {
			err = errors.New("no failed master")
		}
		return err
	}))
	check.Is(t, "a slot with a master", alive.Do(ctx, "get", keyIn(t, c, 5461, 10_921)).Err(), redis.Nil)
}

// keyIn returns a key whose slot lies in the range.
func keyIn(t *testing.T, c *Cluster, first, last int) string {
	t.Helper()
	client := c.Nodes()[len(c.Nodes())-1].Client(t)
	for i := range 1000 {
		key := fmt.Sprint("key", i)
		if slot := int(client.ClusterKeySlot(t.Context(), key).Val()); first <= slot && slot <= last {
			return key
		}
	}
	t.Fatal("no key")
	return ""
}
