package faults_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A slot moves to another master, key by key, while 64 goroutines ask for its keys.
// Exactly the quota passes, and Redis makes every decision.
func TestClusterReshardUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartClusterOf(t, 2, 0)
	from, to := cluster.Masters()[0], cluster.Masters()[1]
	for _, c := range []struct {
		name, prefix string
		keys         int
	}{
		{"a key of its own slot", "apart:", 1},
		{"many keys of one slot", "{together}:", 16},
	} {
		t.Run(c.name, func(t *testing.T) { reshard(t, cluster, from, to, c.prefix, c.keys) })
		from, to = to, from // whichever has the slot: see reshard
	}
}

func reshard(t *testing.T, cluster *redistest.Cluster, from, to *redistest.Server, prefix string, keys int) {
	const workers, quota, deadline = 64, 3000, patience
	store := newClusterStore(t, cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	l := newLimiter(t, core.Config{Store: store, Timeout: deadline, Limits: []core.Limit{atMost(quota, "moving").OnOutage(core.Deny)}})
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("user:", i)
	}
	slot := slotOf(t, cluster, prefix, names[0])
	if master := cluster.MasterOf(t, slot); master != from {
		from, to = master, from
	}
	asked, moved := to.Calls(t, "asking"), errorCount(t, from, "MOVED")
	redirected := errorCount(t, from, "ASK")

	load := newTraffic()
	start := time.Now()
	for _, name := range names {
		load.send(l, name, workers/keys, time.Millisecond)
	}
	flow := func(what string) { // the load goes on, on each key
		t.Helper()
		since := time.Now()
		eventually(t, what, func() bool {
			for _, name := range names {
				if load.count(name, since, func(*ask) bool { return true }) < 10 {
					return false
				}
			}
			return true
		})
	}
	flow("load before")
	move := cluster.BeginMove(t, slot, to)
	flow("load while the slot is about to move")
	for range max(keys/2, 1) {
		move.Keys(1)
		flow("load while keys move")
	}
	asks := to.Calls(t, "asking") - asked
	move.Finish()
	flow("load after")
	asks = max(asks, to.Calls(t, "asking")-asked)
	wantAll := load.stop()

	passed := map[string]int{}
	seen := map[string]map[int64]bool{}
	for i := range wantAll {
		a := &wantAll[i]
		if !a.byRedis() {
			t.Errorf("a decision of %s was %v (%s) during a move", a.key, a.reason, a.class)
		}
		if !a.allowed {
			continue
		}
		passed[a.key]++
		if seen[a.key] == nil {
			seen[a.key] = map[int64]bool{}
		}
		if seen[a.key][a.left] {
			t.Errorf("two requests of %s were told that %d remain", a.key, a.left)
		}
		seen[a.key][a.left] = true
	}
	sum := 0
	for _, name := range names { // what is left of the quota, and no more
		sum += passed[name]
		if rest := hammerKey(t, l, name, quota); int64(passed[name])+rest != quota {
			t.Errorf("%s: %d and %d requests passed, the quota is %d", name, passed[name], rest, quota)
		}
	}
	if asks == 0 {
		t.Error("nobody was sent ASKING: the move showed nothing")
	}
	figure(t, "decisions during the move, all of Redis", len(wantAll))
	figure(t, "of them admitted, of a quota of 3000 for each key", sum)
	figure(t, "ASK and MOVED replies of the old master, ASKING to the new", fmt.Sprint(
		errorCount(t, from, "ASK")-redirected, ", ", errorCount(t, from, "MOVED")-moved, ", ", asks))
	figure(t, "the move took", time.Since(start))
	wantOnTime(t, wantAll, deadline)
}

// A request has two keys of a slot, one of which has moved already. No node can decide
// it, so it is an outage with a class until the other key has moved. Nothing is charged
// meanwhile.
func TestClusterReshardBetweenTheKeysOfARequest(t *testing.T) {
	t.Parallel()
	cluster, prefix := redistest.StartClusterOf(t, 2, 0), "{both}:"
	backend := newClusterStore(t, cluster.Client(t), redisstore.Config{Prefix: prefix, DenialCache: noDenials()})
	events := listen(backend)
	const quota = 500
	rule := ruleOf(t, atMost(quota, "both"))
	keys := []string{keyfuncs.Encode("depot", "1"), keyfuncs.Encode("order", "2")}
	slot := slotOf(t, cluster, prefix, keys[0])
	from, to := cluster.Masters()[0], cluster.Masters()[1]
	if cluster.MasterOf(t, slot) != from {
		from, to = to, from
	}
	var admitted, refused, other atomic.Int64
	quit := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-quit:
					return
				case <-time.After(time.Millisecond):
				}
				results, err := takeWithin(backend, patience, rule, keys...)
				switch {
				case err == nil && results[0].Charged && results[1].Charged:
					admitted.Add(1)
				case err == nil && (results[0].Charged || results[1].Charged):
					t.Errorf("charged in part: %+v", results)
				case err == nil: // denied
				case classOfError(err) == redisstore.ClassTryAgain, classOfError(err) == redisstore.ClassMoved: // the last attempt was redirected by ASK
					refused.Add(1)
				default:
					other.Add(1)
					t.Errorf("an error of class %q: %v", classOfError(err), err)
				}
			}
		})
	}
	eventually(t, "some to be admitted", func() bool { return admitted.Load() > 20 })
	move := cluster.BeginMove(t, slot, to)
	move.Key(prefix + "{" + keys[0] + "}")
	eventually(t, "some to be refused", func() bool { return refused.Load() > 20 })
	before := admitted.Load()
	move.Finish()
	took := eventually(t, "some to be admitted after the move", func() bool { return admitted.Load() > min(before+20, quota-1) })
	close(quit)
	all.Wait()
	used := usedBy(backend, rule, keys...)
	if used[0] != admitted.Load() || used[1] != admitted.Load() {
		t.Errorf("%d were admitted, %v charged", admitted.Load(), used)
	}
	figure(t, "requests refused with TRYAGAIN while one of two keys had moved", refused.Load())
	figure(t, "charged and not admitted", used[0]-admitted.Load())
	figure(t, "decided by Redis again after the move within", took)

	// A limiter's outage action decides, and the decision says why.
	back := cluster.BeginMove(t, slot, from)
	back.Key(prefix + "{" + keys[0] + "}")
	l := newPatient(t, backend, twoKeys(core.Allow)...) // time for all attempts
	d := l.Allow(nobody{})
	if d.Reason != core.ReasonOutageAllowed || classOf(d) != redisstore.ClassTryAgain {
		t.Errorf("decided %v with class %q, want the policy and TRYAGAIN", d.Reason, classOf(d))
	}
	if !events.heard(store.EventStoreError, redisstore.ClassTryAgain) {
		t.Errorf("the hook heard %v", events)
	}
	back.Finish()
	eventually(t, "a decision of Redis", func() bool {
		d := l.Allow(nobody{})
		return d.Reason == core.ReasonWithinLimit
	})
}
