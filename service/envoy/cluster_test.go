package envoy_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/service/envoy"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// On a Redis Cluster, descriptors of different keys are in different slots, on different masters. A
// request is charged to all of them or, in the end, to none.
func TestDescriptorsInSeveralSlots(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(24*time.Hour, 2*time.Minute)
	cluster := redistest.SharedCluster(t)
	store := redisstore.New(cluster.Client(t), redisstore.Config{Prefix: redistest.Prefix(t)})
	s := newServer(t, envoy.Config{Store: store, Timeout: time.Minute}, `
domain: edge
descriptors:
  - key: remote_address
    rate_limit: {unit: day, requests_per_unit: 1000}
  - key: path
    rate_limit: {unit: day, requests_per_unit: 50}
  - key: tenant
    rate_limit: {unit: day, requests_per_unit: 1000}
`)
	c := dial(t, s)
	const clients, each = 12, 10
	of := func(i int) []string {
		return []string{fmt.Sprint("remote_address=192.0.2.", i), "path=/export", fmt.Sprint("tenant=", i)}
	}
	var passed [clients]atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for range each {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				response, err := c.ShouldRateLimit(ctx, request("edge", of(i)...))
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
				if response.GetOverallCode() == ok {
					passed[i].Add(1)
				}
			}
		})
	}
	all.Wait()
	var sum int64
	for i := range clients {
		sum += passed[i].Load()
	}
	check.Equal(t, "requests that passed", sum, 50)
	// What was denied by the path is given back in the background.
	remain := func(i int) [2]int64 {
		empty := request("edge", of(i)[0], of(i)[2])
		for _, d := range empty.GetDescriptors() {
			d.HitsAddend = wrapperspb.UInt64(0)
		}
		var left [2]int64
		for k, status := range ask(t, c, empty).GetStatuses() {
			left[k] = int64(status.GetLimitRemaining())
		}
		return left
	}
	for i := range clients {
		want := 1000 - passed[i].Load()
		wait.Until(t, fmt.Sprintf("client %d: %d remain of 1000", i, want), func() bool { return remain(i) == [2]int64{want, want} })
	}
	masters := 0
	for _, master := range cluster.Masters() {
		if master.Calls(t, "evalsha") > 0 {
			masters++
		}
	}
	if masters < 2 {
		t.Errorf("%d masters have decided: the keys are in one slot", masters)
	}
}
