package faults_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// A Cluster that requires all slots to be served loses a master without a replica. The
// other masters refuse to decide, and the error says why.
func TestClusterIsDown(t *testing.T) {
	t.Parallel()
	cluster, prefix := redistest.StartClusterOf(t, 3, 0, "--cluster-require-full-coverage", "yes", "--cluster-node-timeout", "1000"), redistest.Prefix(t)
	backend := redisstore.New(cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	events := listen(backend)
	keys := onePerMaster(t, cluster, prefix)
	const deadline = 2 * time.Second
	l := newLimiter(t, core.Config{Store: backend, Timeout: deadline, Limits: []core.Limit{atMost(1000, "down").OnOutage(core.Allow)}})
	eventually(t, "a first decision", func() bool { a := decide(l, keys[0]); return a.byRedis() })
	cluster.Masters()[2].Kill()
	var asks []ask
	eventually(t, "CLUSTERDOWN", func() bool {
		a := decide(l, keys[0])
		asks = append(asks, a)
		if !a.byRedis() && a.reason != core.ReasonOutageAllowed {
			t.Errorf("decided %v", a.reason)
		}
		return a.class == redisstore.ClassClusterDown
	})
	if !events.heard(store.EventStoreError, redisstore.ClassClusterDown) {
		t.Errorf("the hook heard %v", events)
	}
	// The dead node's own keys: no node can be asked.
	a := decide(l, keys[2])
	if a.reason != core.ReasonOutageAllowed || a.class == "" || a.class == store.ClassUnknown {
		t.Errorf("decided %v with class %q", a.reason, a.class)
	}
	figure(t, "class of a key of the dead master", a.class)
	cluster.Masters()[2].Restart(t)
	took := eventually(t, "decisions of Redis", func() bool {
		for _, key := range keys {
			if a := decide(l, key); !a.byRedis() {
				return false
			}
		}
		return true
	})
	figure(t, "all keys decided by Redis after its restart within", took)
	wantOnTime(t, asks, deadline)
}

// A slot has moved since the client loaded its map. MOVED sends the first check on to
// the right node, which decides it.
func TestClusterMovedIsFollowed(t *testing.T) {
	t.Parallel()
	cluster, prefix := redistest.StartClusterOf(t, 2, 0), redistest.Prefix(t)
	tested := newClusterStore(t, cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	events := listen(tested)
	l := newPatient(t, tested, atMost(1000, "moved").OnOutage(core.Deny))
	from, to := cluster.Masters()[0], cluster.Masters()[1]
	redirections := int64(0)
	for _, key := range keysOn(t, cluster, prefix, 6)[0] {
		if a := decide(l, key); !a.byRedis() || a.left != 999 {
			t.Fatalf("decided %v (%s), %d remain", a.reason, a.class, a.left)
		}
		cluster.MoveSlot(t, slotOf(t, cluster, prefix, key), to)
		before := errorCount(t, from, "MOVED")
		if a := decide(l, key); !a.byRedis() || a.left != 998 {
			t.Errorf("after a move decided %v (%s), %d remain", a.reason, a.class, a.left)
		}
		redirections += errorCount(t, from, "MOVED") - before
	}
	if redirections == 0 && !redistest.Before(t, 6, 2) {
		t.Error("no check was answered MOVED")
	}
	if n := events.count(store.EventStoreError); n != 0 {
		t.Errorf("the hook heard %v", events)
	}
	figure(t, "MOVED replies to 6 checks after as many moves, all of which Redis decided", redirections)
}

// A node redirects checks to a node that can't be reached, and no other node knows better.
func TestClusterMovedToNowhere(t *testing.T) {
	t.Parallel()
	cluster, prefix := redistest.StartClusterOf(t, 3, 0), redistest.Prefix(t)
	backend := redisstore.New(cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	events := listen(backend)
	keys := onePerMaster(t, cluster, prefix)
	const deadline = 200 * time.Millisecond
	l := newLimiter(t, core.Config{Store: backend, Timeout: deadline, Limits: []core.Limit{atMost(1000, "nowhere").OnOutage(core.Deny)}})
	eventually(t, "a first decision", func() bool { a := decide(l, keys[0]); return a.byRedis() })
	slot := slotOf(t, cluster, prefix, keys[0])
	dead := cluster.Masters()[1]
	dead.Kill()
	// The slot's master is told to migrate it to a node that is dead.
	client := cluster.Masters()[0].Client(t)
	id := ""
	for _, line := range strings.Split(client.ClusterNodes(t.Context()).Val(), "\n") {
		if strings.Contains(line, dead.Addr()+"@") {
			id = strings.Fields(line)[0]
		}
	}
	must.OK(t, client.Do(t.Context(), "cluster", "setslot", slot, "migrating", id).Err())
	if err := client.Del(t.Context(), prefix+"{"+keys[0]+"}").Err(); err != nil { // so that it says ASK
		t.Fatal(err)
	}
	var asks []ask
	eventually(t, "a check that is sent nowhere", func() bool {
		a := decide(l, keys[0])
		asks = append(asks, a)
		return a.reason == core.ReasonOutageDenied
	})
	if class := asks[len(asks)-1].class; class == store.ClassUnknown || class == "" || !events.heard(store.EventStoreError, class) {
		t.Errorf("class %q, the hook heard %v", class, events)
	}
	figure(t, "class of a check that ASK sends to a dead node", asks[len(asks)-1].class)
	must.OK(t, client.Do(t.Context(), "cluster", "setslot", slot, "stable").Err())
	took := eventually(t, "decisions of Redis", func() bool { a := decide(l, keys[0]); return a.byRedis() })
	figure(t, "decided by Redis once the node keeps the slot, within", took)
	wantOnTime(t, asks, deadline)
}
