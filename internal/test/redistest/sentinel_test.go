package redistest

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestSentinelsReplaceTheMaster(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	s.DownAfter(t, 500*time.Millisecond)
	ctx, client := t.Context(), s.Client(t)
	old := s.Master(t)
	if old != s.Servers()[0] {
		t.Errorf("the master is %s, want the first server", old.Addr())
	}
	must.OK(t, client.Set(ctx, "k", "kept", 0).Err())
	if n, err := old.Client(t).Wait(ctx, 2, awaitTimeout).Result(); n != 2 || err != nil {
		t.Fatalf("WAIT = %d, %v", n, err)
	}
	old.Kill()
	elected := s.AwaitFailover(t, old)
	if elected == old || s.Master(t) != elected {
		t.Errorf("elected %s, master %s, was %s", elected.Addr(), s.Master(t).Addr(), old.Addr())
	}
	if got, err := s.Client(t).Get(ctx, "k").Result(); got != "kept" || err != nil {
		t.Errorf("a new client reads %q, %v", got, err)
	}
	check.OK(t, await("the old client to find the new master", func() error {
		return client.Set(ctx, "k", "new", 0).Err()
	}))

	old.Restart(t)
	check.OK(t, await("the old master to follow", func() error { return old.inSync(elected) }))
	elected.Kill()
	if third := s.AwaitFailover(t, elected); third == elected {
		t.Error("no second failover")
	}
}

func TestSentinelClientFollowsReplicasOnDemand(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	check.Equal(t, "servers", len(s.Servers()), 3)
	check.Equal(t, "sentinels", len(s.Sentinels()), 3)
	replica := s.ClientWith(t, &redis.FailoverOptions{ReplicaOnly: true, MaxRetries: -1})
	if err := replica.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("GET from a replica: %v, want redis.Nil", err)
	}
	err := replica.Set(t.Context(), "k", "v", 0).Err()
	if err == nil || err.Error() != "READONLY You can't write against a read only replica." {
		t.Errorf("SET to a replica: %v, want READONLY", err)
	}
}
