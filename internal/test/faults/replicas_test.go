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
	server   *redistest.Server
	replicas []*core.Limiter
	patient  []*core.Limiter // the same with a long timeout, for when Redis is to decide on a busy machine
	heard    []*audience
}

func newFleet(t *testing.T, n int, limit core.Limit) *fleet {
	t.Helper()
	f := &fleet{server: redistest.Start(t)}
	for range n {
		store := redisstore.New(f.server.Client(t))
		f.heard = append(f.heard, listen(store))
		config := core.Config{
			Store: store, Replicas: n, Timeout: 300 * time.Millisecond,
			Limits: []core.Limit{limit.By(keyfuncs.Everyone()).Named("fleet")},
		}
		f.replicas = append(f.replicas, newLimiter(t, config))
		config.Timeout = patience
		f.patient = append(f.patient, newLimiter(t, config))
	}
	return f
}

// freeze freezes Redis, and asks every replica for a client until none grants any
// more. It returns how many requests passed.
func (f *fleet) freeze(t *testing.T) int64 {
	t.Helper()
	f.server.Freeze(t)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for _, l := range f.replicas {
		for range 8 {
			wg.Go(func() {
				for range 25 {
					if l.AllowKey(context.Background(), "k", 1).Allowed {
						passed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	return passed.Load()
}

// thaw lets Redis go on, and returns when all replicas ask it again. Another client's
// requests start the probes.
func (f *fleet) thaw(t *testing.T) {
	t.Helper()
	f.server.Thaw(t)
	for _, l := range f.replicas {
		eventually(t, "a decision by Redis", func() bool {
			return l.AllowKey(context.Background(), "other", 0).Reason == core.ReasonWithinLimit
		})
	}
}

// ask asks each of the replicas in turn, often. They have to be patient ones.
func (f *fleet) ask(replicas []*core.Limiter) (passed int64) {
	for range 150 {
		for _, l := range replicas {
			if l.AllowKey(context.Background(), "k", 1).Allowed {
				passed++
			}
		}
	}
	return passed
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
	const quota, replicas, window = 100, 3, 30 * 24 * time.Hour
	for name, limit := range storetest.Algorithms(quota, window) {
		for _, before := range []int64{0, 40, 100} {
			t.Run(fmt.Sprint(name, ", ", before, " used before"), func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, replicas, limit)
				left := quota - before
				for range before {
					if !f.patient[0].AllowKey(t.Context(), "k", 1).Allowed {
						t.Fatal("denied below the quota")
					}
				}
				granted := f.freeze(t)
				f.thaw(t)
				after := f.ask(f.patient)
				again := f.freeze(t)
				f.server.Thaw(t)
				figure(t, "Redis had left, of 100", left)
				figure(t, "replicas granted while it was frozen", granted)
				figure(t, "Redis granted afterwards", after)
				figure(t, "replicas granted in a second freeze", again)
				if granted < quota || granted > quota+replicas {
					t.Errorf("three replicas granted %d, want %d to %d", granted, quota, quota+replicas)
				}
				if most := max(left, granted+replicas); granted+after > most {
					t.Errorf("%d were granted in the freeze and %d afterwards, want at most %d", granted, after, most)
				}
				if again > 0 {
					t.Errorf("the second freeze granted %d more; events: %v", again, f.heard[0])
				}
			})
		}
	}
}

// When Redis is back, the client's requests reach only one replica. So Redis does not
// learn what the others granted.
func TestReplicasThatAreNotAskedAgain(t *testing.T) {
	t.Parallel()
	const quota, replicas = 100, 3
	for name, limit := range storetest.Algorithms(quota, 30*24*time.Hour) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, replicas, limit)
			granted := f.freeze(t)
			f.thaw(t)
			after := f.ask(f.patient[:1])
			figure(t, "replicas granted while Redis was frozen", granted)
			figure(t, "Redis granted afterwards, to one replica", after)
			if most := quota + granted; granted+after > most {
				t.Errorf("%d were granted in the freeze and %d afterwards, want at most %d", granted, after, most)
			}
			// What the one replica has granted itself.
			if most := int64(quota) - quota/replicas; after > most {
				t.Errorf("Redis granted %d to a replica that had granted %d by itself, want at most %d", after, quota/replicas, most)
			}
		})
	}
}
