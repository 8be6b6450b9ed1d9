package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
)

// A hundred instances that publish as much as one may, and a page that collects all of it, make Redis run
// ten commands an instance at most, and carry each snapshot once to it and once from it. How much of a core of Redis that is
// with an interval of 5 seconds is printed and not judged, since it depends on what else the machine does; on
// a quiet one it was 0.7 %:
//
//	go test ./core/redisstore -run HundredInstances -v
func TestAHundredInstancesTakeLittleOfRedis(t *testing.T) {
	t.Parallel()
	const instances, interval = 100, 5 * time.Second
	rounds := long.Rounds(2, 12)
	server := redistest.Start(t)
	var snapshots [][]byte
	for i := range 2 { // all others publish what these two have counted
		heavy := top.New(top.Config{Instance: fmt.Sprint("counting-", i)})
		defer heavy.Close()
		var limits []core.Limit
		for n := range 10 {
			limits = append(limits, core.PerMinute(100).By(keyfuncs.ClientIP()).Named(fmt.Sprint("limit-", n)))
		}
		l := must.Get(core.New(core.Config{Store: core.NewMemory(), Limits: limits, Observe: heavy}))(t)
		for range 8_000 {
			l.AllowKey(t.Context(), fmt.Sprint("ip:192.0.2.", int(rand.ExpFloat64()*200)), 1)
		}
		data := must.Get(heavy.Snapshot().MarshalBinary())(t)
		snapshots = append(snapshots, data[:64<<10])
	}
	e := redisstore.New(server.Client(t)).Exchange()
	before, statsBefore := server.Processor(t), work(t, server.Client(t))
	var collecting time.Duration
	for range rounds {
		for i := range instances {
			must.OK(t, e.Publish(t.Context(), fmt.Sprint("node-", i), snapshots[i%2], time.Minute))
			must.Do(e.Agree(t.Context(), snapshots[0][:16]))(t)
		}
		began := time.Now()
		if all, err := e.Collect(context.Background()); err != nil || len(all) != instances {
			t.Fatalf("collected %d snapshots, %v", len(all), err)
		}
		collecting += time.Since(began)
	}
	did := work(t, server.Client(t))
	for field := range did {
		did[field] = (did[field] - statsBefore[field]) / rounds
	}
	share := float64(server.Processor(t)-before) / float64(time.Duration(rounds)*interval)
	t.Logf("a round: %v; %.2f %% of a core; a page collects in %v", did, 100*share, collecting/time.Duration(rounds))
	const (
		commands = 10 * instances // those of scripts included
		bytes    = instances * (64<<10 + 1024)
	)
	if got := did["total_commands_processed"]; got > commands {
		t.Errorf("Redis runs %d commands a round, want at most %d", got, commands)
	}
	for _, field := range []string{"total_net_input_bytes", "total_net_output_bytes"} {
		if got := did[field]; got > bytes {
			t.Errorf("a round has %s:%d, want at most %d", field, got, bytes)
		}
	}
}

// work is what a server says that it has done: commands, bytes in, bytes out.
func work(t *testing.T, client *redis.Client) map[string]int {
	t.Helper()
	did := make(map[string]int)
	stats := must.Get(client.Info(t.Context(), "stats").Result())(t)
	for _, field := range []string{"total_commands_processed", "total_net_input_bytes", "total_net_output_bytes"} {
		_, rest, _ := strings.Cut(stats, field+":")
		value, _, _ := strings.Cut(rest, "\r\n")
		did[field] = must.Get(strconv.Atoi(value))(t)
	}
	return did
}

// Two instances on one Redis see what both have counted, and what they publish expires.
func TestTopClientsOfTwoInstances(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	var trackers []*top.Tracker
	var limiters []*core.Limiter
	for i := range 2 {
		store := redisstore.New(client, redisstore.Config{Prefix: prefix})
		heavy := top.New(top.Config{Exchange: store.Exchange(), Instance: fmt.Sprint("node-", i), Interval: time.Second})
		t.Cleanup(heavy.Close)
		l := must.Get(core.New(core.Config{Store: store, Timeout: time.Minute, Observe: heavy, Limits: []core.Limit{core.PerHour(100_000).By(keyfuncs.ClientIP()).Named("api")}}))(t)
		trackers, limiters = append(trackers, heavy), append(limiters, l)
	}
	asked := [2]int64{}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		for i := range limiters {
			limiters[i].AllowKey(t.Context(), "user:1", 1)
			asked[i]++
		}
		s := must.Get(trackers[0].Collect(t.Context()))(t)
		if l := s.Limit("api"); len(s.Instances) == 2 && l != nil && len(l.Use.Peaks) == 1 {
			c, _ := l.Client("user:1")
			// What the other instance has counted since its last snapshot is missing.
			if got := l.Use.Peaks[0]; got > asked[0]+asked[1] {
				t.Fatalf("the client used %d, with %v requests", got, asked)
			} else if c.Hour.Requests > asked[0]/2 && c.Used > 0 && got >= 2 {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v requests: %+v", asked, s)
		}
		time.Sleep(50 * time.Millisecond) // snapshots are published each second, and nothing tells when
	}
	for _, key := range client.Keys(t.Context(), prefix+"{#exchange}*").Val() {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 {
			t.Errorf("%s never expires", key)
		}
	}
}
