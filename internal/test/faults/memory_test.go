package faults_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/race"
)

// gone is a store that fails at once.
type gone struct{ store.Base }

var errGone = &store.Error{Class: store.ClassConnection, Err: errors.New("there is none")}

func (*gone) Take(context.Context, []core.Check, []core.Result) error   { return errGone }
func (*gone) Peek(context.Context, []core.Check, []core.Result) error   { return errGone }
func (*gone) Charge(context.Context, []core.Check, []core.Result) error { return errGone }
func (*gone) Refund(context.Context, []core.Check, []core.Result) error { return errGone }
func (*gone) Renew(context.Context, []core.Check, []core.Result) error  { return errGone }
func (*gone) Reset(context.Context, []core.Check) error                 { return errGone }
func (*gone) Unblock(context.Context, []core.Check) error               { return errGone }

func (*gone) Block(context.Context, []core.Check, time.Duration) error { return errGone }

func (*gone) Blocks(context.Context, []*core.Rule) iter.Seq2[store.Blocked, error] {
	return func(yield func(store.Blocked, error) bool) { yield(store.Blocked{}, errGone) }
}

// Trap 30: an attacker who makes up millions of keys in an outage neither fills the
// memory nor frees a client that has nothing left. Apart: it measures the heap
// of the process.
func TestTenMillionKeysInAnOutage(t *testing.T) {
	if child.Apart(t) {
		return
	}
	keys := long.Rounds(3*memstore.DefaultMaxBuckets, 10_000_000)
	race.Skip(t)
	store := new(gone)
	heard := listen(store)
	before := heap()
	l := newLimiter(t, core.Config{Store: store, Replicas: 3, Limits: []core.Limit{atMost(30, "api")}})
	const blocked = 100
	block := func(n int) core.Decision {
		return l.AllowKey(context.Background(), fmt.Sprint("blocked ", n), 1)
	}
	for n := range blocked {
		for range 10 { // this replica's share
			if d := block(n); !d.Allowed || d.Reason != core.ReasonOutageLocal {
				t.Fatalf("below the share: %v", d.Reason)
			}
		}
	}
	start, peak, freed := time.Now(), int64(0), 0
	for n := range keys {
		if d := l.AllowKey(context.Background(), strconv.Itoa(n), 1); !d.Allowed {
			t.Fatalf("a new client was denied: %v", d.Reason)
		}
		if n%(keys/50) != 0 {
			continue
		}
		peak = max(peak, heap()-before)
		for b := range blocked {
			if block(b).Allowed {
				freed++
			}
		}
	}
	took := time.Since(start)
	// As the documentation of memstore.Config.MaxBuckets says.
	const bound = memstore.DefaultMaxBuckets * 69
	figure(t, "distinct keys", keys)
	figure(t, "heap, at most (MB)", float64(peak)/1e6)
	figure(t, "its bound (MB)", float64(bound)/1e6)
	figure(t, "a decision takes", took/time.Duration(keys))
	figure(t, "blocked clients that passed again", freed)
	figure(t, "events", len(heard.all()))
	if peak > bound {
		t.Errorf("%d bytes on the heap, the bound is %d", peak, int64(bound))
	}
	if freed > 0 {
		t.Errorf("%d times a client passed that has nothing left", freed)
	}
	runtime.KeepAlive(l)
}

// heap returns the bytes that are still referred to.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
