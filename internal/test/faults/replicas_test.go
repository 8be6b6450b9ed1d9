package faults_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// fleet is an application of several replicas, each with a client of its own.
type fleet struct {
	name     string // of its limit's algorithm
	replicas []*core.Limiter
	patient  []*core.Limiter // the same with a long timeout, for when Redis is to decide on a busy machine
	heard    []*audience
}

const fleetQuota, fleetReplicas = 100, 3

// newFleets makes a fleet for each algorithm.
func newFleets(t *testing.T, server *redistest.Server) (fleets []*fleet) {
	t.Helper()
	for name, limit := range storetest.Algorithms(fleetQuota, 30*24*time.Hour) {
		f, prefix := &fleet{name: name}, redistest.Prefix(t)
		for range fleetReplicas {
			store := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
			f.heard = append(f.heard, listen(store))
			config := core.Config{
				Store: store, Replicas: fleetReplicas, Timeout: 300 * time.Millisecond,
				Limits: []core.Limit{limit.By(keyfuncs.Everyone()).Named("fleet")},
			}
			f.replicas = append(f.replicas, newLimiter(t, config))
			config.Timeout = patience
			f.patient = append(f.patient, newLimiter(t, config))
		}
		fleets = append(fleets, f)
	}
	return fleets
}

// exhaust asks every replica for a client until none grants any more, as a frozen Redis leaves it to
// them. It returns how many requests passed.
func (f *fleet) exhaust(key string) int64 {
	var passed atomic.Int64
	var wg sync.WaitGroup
	for _, l := range f.replicas {
		for range 8 {
			wg.Go(func() {
				for range 25 {
					if l.AllowKey(context.Background(), key, 1).Allowed {
						passed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return passed.Load()
}

// freeze freezes Redis. Before, each replica makes some checks with little time: after those of a patient
// limiter, a time-out that is short beside theirs would say little about Redis, and each request would wait.
func freeze(t *testing.T, server *redistest.Server, fleets []*fleet) {
	t.Helper()
	for _, f := range fleets {
		for _, l := range f.replicas {
			for range 30 {
				l.AllowKey(context.Background(), "other", 0)
			}
		}
	}
	server.Freeze(t)
}

// thaw lets Redis go on, and returns when all replicas of all fleets ask it again. Another client's
// requests start the probes.
func thaw(t *testing.T, server *redistest.Server, fleets []*fleet) {
	t.Helper()
	server.Thaw(t)
	for _, f := range fleets {
		for _, l := range f.replicas {
			eventually(t, "a decision by Redis", func() bool {
				return l.AllowKey(context.Background(), "other", 0).Reason == core.ReasonWithinLimit
			})
		}
	}
}

// ask asks each of some replicas in turn, more often than the quota. They have to be patient ones.
func (f *fleet) ask(key string, replicas []*core.Limiter) (passed int64) {
	for n := range fleetQuota * 3 / 2 {
		if replicas[n%len(replicas)].AllowKey(context.Background(), key, 1).Allowed {
			passed++
		}
	}
	return passed
}

// client is a client of one of the fleets.
type client struct {
	*fleet
	before int64 // units used before Redis was frozen

	granted, after, again int64
}

// Trap 26: the replicas together grant the limit once, and not once more when
// Redis is back, nor in the next outage.
//
// In one window, at most the sum of two amounts passes: what Redis had left when it
// froze, and what the replicas granted together. If each replica has had one of the
// client's requests decided by Redis since, at most the larger amount passes, plus one
// request per replica: the one that Redis decided before it learned of the others.
func TestReplicasOnAFrozenRedis(t *testing.T) {
	t.Parallel()
	for _, c := range freezeTwice(t, fleetReplicas, 0, 40, fleetQuota) {
		t.Run(fmt.Sprint(c.name, ", ", c.before, " used before"), func(t *testing.T) {
			left := fleetQuota - c.before
			figure(t, "Redis had left, of 100", left)
			figure(t, "replicas granted while it was frozen", c.granted)
			figure(t, "Redis granted afterwards", c.after)
			figure(t, "replicas granted in a second freeze", c.again)
			if c.granted < fleetQuota || c.granted > fleetQuota+fleetReplicas {
				t.Errorf("three replicas granted %d, want %d to %d", c.granted, fleetQuota, fleetQuota+fleetReplicas)
			}
			if most := max(left, c.granted+fleetReplicas); c.granted+c.after > most {
				t.Errorf("%d were granted in the freeze and %d afterwards, want at most %d", c.granted, c.after, most)
			}
			if c.again > 0 {
				t.Errorf("the second freeze granted %d more; events: %v", c.again, c.heard[0])
			}
		})
	}
}

// When Redis is back, the client's requests reach only one replica. So Redis does not
// learn what the others granted.
func TestReplicasThatAreNotAskedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range freezeTwice(t, 1, 0) {
		t.Run(c.name, func(t *testing.T) {
			figure(t, "replicas granted while Redis was frozen", c.granted)
			figure(t, "Redis granted afterwards, to one replica", c.after)
			if most := fleetQuota + c.granted; c.granted+c.after > most {
				t.Errorf("%d were granted in the freeze and %d afterwards, want at most %d", c.granted, c.after, most)
			}
			// What the one replica has granted itself.
			if most := int64(fleetQuota) - fleetQuota/fleetReplicas; c.after > most {
				t.Errorf("Redis granted %d to a replica that had granted %d by itself, want at most %d", c.after, fleetQuota/fleetReplicas, most)
			}
		})
	}
}

// freezeTwice freezes a Redis of fleets twice, and returns what a client of each fleet that had used some units
// before was granted. When Redis is back, its requests reach a number of replicas only.
func freezeTwice(t *testing.T, only int, before ...int64) (clients []*client) {
	t.Helper()
	server := redistest.Start(t)
	fleets := newFleets(t, server)
	for _, f := range fleets {
		for _, used := range before {
			clients = append(clients, &client{fleet: f, before: used})
		}
	}
	all := func(do func(c *client, key string)) {
		var wg sync.WaitGroup
		for _, c := range clients {
			wg.Go(func() { do(c, fmt.Sprint("k", c.before)) })
		}
		wg.Wait()
	}
	all(func(c *client, key string) {
		for range c.before {
			if !c.patient[0].AllowKey(context.Background(), key, 1).Allowed {
				t.Error("denied below the quota")
			}
		}
	})
	freeze(t, server, fleets)
	all(func(c *client, key string) { c.granted = c.exhaust(key) })
	thaw(t, server, fleets)
	all(func(c *client, key string) { c.after = c.ask(key, c.patient[:only]) })
	freeze(t, server, fleets)
	all(func(c *client, key string) { c.again = c.exhaust(key) })
	server.Thaw(t)
	return clients
}
