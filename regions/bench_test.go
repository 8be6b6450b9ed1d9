package regions_test

import (
	"context"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// wrapped is a store as any wrapper leaves it: without the limiter's fast path for a bare memory store.
type wrapped struct{ store.Store }

// BenchmarkDecision compares decisions on a store with those on the store of a region over it: for a key below its floor,
// and for one that spends what the region has leased.
//
//	go test -run '^$' -bench Decision -benchmem ./regions
func BenchmarkDecision(b *testing.B) {
	stores := map[string]func(b *testing.B) store.Store{
		"memory": func(*testing.B) store.Store { return wrapped{memstore.New()} },
		"Redis": func(b *testing.B) store.Store {
			return redisstore.New(redistest.Start(b).Client(b), redisstore.Config{})
		},
	}
	for name, newStore := range stores {
		for _, callers := range []int{1, 32} { // on each processor
			for _, way := range []string{"without regions", "below the floor", "with a share"} {
				b.Run(name+"/"+map[int]string{1: "one caller", 32: "32 callers"}[callers]+"/"+way, func(b *testing.B) {
					decide(b, newStore, callers, way)
				})
			}
		}
	}
}

func decide(b *testing.B, newStore func(b *testing.B) store.Store, callers int, way string) {
	s := newStore(b)
	limit := core.Per(1<<30, time.Hour).FixedWindow().By(keyfuncs.Everyone())
	if way != "without regions" {
		home := memstore.New()
		regional := must.Get(regions.New(s, home, regions.Config{Region: "eu", Regions: 2}))(b)
		s = regional
	}
	l := must.Get(core.New(core.Config{Store: s, Limits: []core.Limit{limit}, Timeout: time.Minute}))(b)
	if way == "with a share" {
		time.Sleep(6 * time.Second) // home is new, and only learns at first
		rule := must.Get(limit.Rule())(b)
		results := make([]core.Result, 1)
		for _, cost := range []int64{1 << 29 / 10, 1 << 28} { // more than the floor, and as much as home gives at once
			must.OK(b, s.Take(context.Background(), []core.Check{{Key: []byte("client"), Rule: &rule, Cost: cost}}, results))
		}
		must.Equal(b, "leased", results[0].Charged, true)
	}
	b.ReportAllocs()
	b.SetParallelism(callers)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d := l.AllowKey(context.Background(), "client", 1); !d.Allowed {
				b.Error("denied")
			}
		}
	})
}
