// Package oneclient checks that stores can be made on a Redis client that others use meanwhile:
// a constructor changes nothing that it is given. It is a package of its own so that modules with other
// releases of go-redis can run it, under the race detector.
package oneclient

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

const (
	clients = 10 // one after the other: what a constructor changes, it may change while the client is new
	makers  = 4  // of stores on one client, at a time
	users   = 4  // of the client itself
)

// Run makes stores and limiters on clients of one server, a Cluster and a Ring, while others use these clients.
func Run(t *testing.T) {
	// With paths of sockets as addresses, a Ring can have the shared server.
	server := redistest.Shared(t)
	shards := map[string]string{"only": server.Addr()}
	for _, kind := range []struct {
		name string
		open func(t *testing.T) redis.UniversalClient
	}{
		{"one server", func(t *testing.T) redis.UniversalClient { return server.Client(t) }},
		{"Cluster", func(t *testing.T) redis.UniversalClient { return redistest.SharedCluster(t).Client(t) }},
		{"Ring", func(t *testing.T) redis.UniversalClient {
			ring := redis.NewRing(&redis.RingOptions{Addrs: shards})
			t.Cleanup(func() { _ = ring.Close() })
			return ring
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			for range clients {
				onOne(t, kind.open(t))
			}
		})
	}
}

// onOne makes stores on a client and uses it, all at once.
func onOne(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	prefix := redistest.Prefix(t)
	before := settings(client)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for n := range makers {
		all.Go(func() {
			<-begin
			store := redisstore.New(client, redisstore.Config{Prefix: fmt.Sprint(prefix, n)})
			limiter, err := core.New(core.Config{
				Store: store, Timeout: time.Minute, Limits: []core.Limit{core.PerHour(10).By(keyfuncs.Everyone())},
			})
			if err != nil {
				t.Error(err)
				return
			}
			check.Equal(t, "a limiter on a client that others use", limiter.AllowKey(context.Background(), "k", 1).Reason, core.ReasonWithinLimit)
		})
	}
	for n := range users {
		all.Go(func() {
			<-begin
			key := fmt.Sprint(prefix, "own", n)
			_ = client.Set(context.Background(), key, n, time.Minute).Err() // of no interest: it may find an empty pool
			_ = client.Get(context.Background(), key).Err()                 // and no pipeline: with go-redis 9.5, a Ring's panics while SetAddrs is called
		})
	}
	if ring, ok := client.(*redis.Ring); ok {
		all.Go(func() { // the application has a shard more for a moment
			<-begin
			only := ring.Options().Addrs["only"]
			ring.SetAddrs(map[string]string{"only": only, "other": only + ".other"})
			ring.SetAddrs(map[string]string{"only": only})
		})
	}
	close(begin)
	all.Wait()
	if after := settings(client); !reflect.DeepEqual(before, after) {
		t.Errorf("the client's options were %+v, and are %+v", before, after)
	}
}

// settings returns a copy of a client's options that can be compared: without functions.
func settings(client redis.UniversalClient) map[string]any {
	var options reflect.Value
	switch c := client.(type) {
	case *redis.Client:
		options = reflect.ValueOf(*c.Options())
	case *redis.ClusterClient:
		options = reflect.ValueOf(*c.Options())
	case *redis.Ring:
		options = reflect.ValueOf(*c.Options())
	}
	fields := map[string]any{}
	for i := range options.NumField() {
		if f := options.Type().Field(i); f.IsExported() && f.Type.Kind() != reflect.Func {
			fields[f.Name] = options.Field(i).Interface()
		}
	}
	return fields
}
