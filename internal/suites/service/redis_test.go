package service_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	windows "github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// instances returns a function that starts a process of the service, as far as one can in a test: it
// shares nothing with the others but Redis and the secret.
func instances(t *testing.T) func() *service.Service {
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	return func() *service.Service {
		client := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr()})
		t.Cleanup(func() { _ = client.Close() })
		return newService(t, func(c *service.Config) {
			c.Store = redisstore.New(client, redisstore.Config{Prefix: prefix})
			c.Secrets = [][]byte{[]byte("0123456789abcdef0123456789abcdef")}
		})
	}
}

func drain(t *testing.T, s *service.Service) {
	t.Helper()
	must.OK(t, s.Drain(t.Context()))
}

func remaining(t *testing.T, s http.Handler, policy, key string, limit int) float64 {
	t.Helper()
	status, got := post(t, s, "/v1/peek", fmt.Sprintf(`{"policy":%q,"key":%q}`, policy, key))
	if status != http.StatusOK {
		t.Fatal(status, got)
	}
	return got["limits"].([]any)[limit].(map[string]any)["remaining"].(float64)
}

func TestAReservationIsSettledOnceByAnyProcess(t *testing.T) {
	t.Parallel()
	start := instances(t)
	all := []*service.Service{start(), start(), start()}
	const rounds, reserved, spent = 20, 100, 30
	for i := range rounds {
		status, got := post(t, all[i%3], "/v1/reserve", fmt.Sprintf(`{"policy":"tokens","key":"tenant:acme","costs":{"tokens":%d,"requests":1,"month":0}}`, reserved))
		if status != 200 || got["allowed"] != true {
			t.Fatal(status, got)
		}
		body := fmt.Sprintf(`{"reservation":%q,"costs":{"tokens":%d}}`, got["reservation"], spent)
		if i == rounds/2 { // a process is restarted in between
			all[1] = start()
		}
		var settled, before atomic.Int64
		var wait sync.WaitGroup
		for k := range 12 {
			wait.Go(func() {
				switch status, got := post(t, all[k%3], "/v1/settle", body); status {
				case http.StatusOK:
					settled.Add(1)
				case http.StatusConflict:
					before.Add(1)
				default:
					t.Error(status, got)
				}
			})
		}
		wait.Wait()
		if settled.Load() != 1 || before.Load() != 11 {
			t.Fatalf("settled %d times, refused %d times", settled.Load(), before.Load())
		}
		if status, _ := post(t, start(), "/v1/refund", fmt.Sprintf(`{"reservation":%q}`, got["reservation"])); status != http.StatusConflict {
			t.Fatalf("a refund after a restart: %d", status)
		}
	}
	for _, s := range all {
		drain(t, s)
	}
	check.Equal(t, "remain", remaining(t, all[0], "tokens", "tenant:acme", 1), 10000-rounds*spent)
}

func TestOperationsAreChargedOnceByAllProcesses(t *testing.T) {
	t.Parallel()
	start := instances(t)
	a, b := start(), start()
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			to := a
			if i%2 == 0 {
				to = b
			}
			if status, got := post(t, to, "/v1/check", `{"policy":"api","request":{"client_ip":"192.0.2.1"},"operation":"op"}`); status != 200 || got["allowed"] != true {
				t.Error(status, got)
			}
		})
	}
	wait.Wait()
	_, got := post(t, a, "/v1/peek", `{"policy":"api","request":{"client_ip":"192.0.2.1"}}`)
	if left := got["limits"].([]any)[0].(map[string]any)["remaining"]; left != 4.0 {
		t.Errorf("%v remain, want 4", left)
	}
}

func TestManyChecksOnRedisAreExact(t *testing.T) {
	t.Parallel()
	start := instances(t)
	all := []*service.Service{start(), start()}
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			_, got := post(t, all[i%2], "/v1/checks", `{"checks":[{"policy":"keys","key":"k"},{"policy":"keys","key":"k"},{"together":[{"policy":"keys","key":"k"},{"policy":"api","key":"k"}]}]}`)
			for _, each := range got["answers"].([]any) {
				if each.(map[string]any)["allowed"] == true {
					allowed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	check.Equal(t, "allowed of 3", allowed.Load(), 3)
}

// Consumers of several processes share what there is, by several processes of the service: none of it is granted twice, and
// all of it is granted to somebody. What they report in the end is what stays charged.
func TestBatchesOfManyConsumersOverRedis(t *testing.T) {
	t.Parallel()
	windows.AwayFrom(time.Hour, time.Minute)
	start := instances(t)
	all := []*service.Service{start(), start(), start()}
	var granted, spent atomic.Int64
	var mu sync.Mutex
	var ends []func() // Guarded by mu.
	var consumers sync.WaitGroup
	for i := range 9 {
		server := httptest.NewServer(all[i%3])
		t.Cleanup(server.Close)
		c := must.Get(client.New(client.Config{URL: server.URL, Timeout: patience, OnOutage: client.OnOutage{Action: core.Deny}}))(t)
		l := must.Get(c.Limiter(core.Config{Store: c.Store()}, "estimated"))(t)
		consumers.Go(func() {
			for {
				units, d := l.AllowKeyAtMost(t.Context(), "tenant:consumers", int64(500+100*i))
				if check.OK(t, d.Err); units == 0 {
					break
				}
				granted.Add(units)
				spent.Add(units / 2)
				check.OK(t, core.Spend(core.NewContext(t.Context(), d), units/2))
				mu.Lock()
				ends = append(ends, func() {
					d.Settle(core.Outcome{Status: 200})
					must.OK(t, l.Drain(t.Context()))
				})
				mu.Unlock()
			}
		})
	}
	consumers.Wait()
	for _, end := range ends { // when nothing is left, so that nobody is granted what others give back
		end()
	}
	for _, s := range all {
		drain(t, s)
	}
	check.Equal(t, "granted in all", granted.Load(), 10_000)
	check.Equal(t, "left", int64(remaining(t, all[0], "estimated", "tenant:consumers", 0)), 10_000-spent.Load())
}
