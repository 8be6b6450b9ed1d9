package faults_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A client asks while a policy changes again and again what a limit counts by, on a process that follows and on one
// that does not, with slices and cached denials: it has the quota of each key, once. What it has as a user is not
// counted for the address, the tenant or the secret key that is written alike.
func TestAKeyThatChangesUnderLoad(t *testing.T) {
	t.Parallel()
	const quota = 300
	secret := []byte("0123456789abcdef")
	keys := map[string]keyfuncs.Func{
		"ip": keyfuncs.ClientIP(), "user": keyfuncs.User("user"), "tenant": keyfuncs.Tenant("tenant"), "secret": keyfuncs.ClientIP().WithSecret(secret),
	}
	order := []string{"ip", "user", "tenant", "secret"}
	client := keyfuncs.Values{"ip": "192.0.2.1", "user": "192.0.2.1", "tenant": "192.0.2.1"}
	rdb, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	for name, open := range map[string]func() core.Store{
		"as it is": func() core.Store {
			return redisstore.New(rdb, redisstore.Config{Prefix: prefix + "a:"})
		},
		"with slices": func() core.Store {
			return redisstore.New(rdb, redisstore.Config{Prefix: prefix + "b:", Prefetch: redisstore.Prefetch{Fraction: 0.2, MaxAge: 20 * time.Millisecond}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edge.AwayFrom(24*time.Hour, 2*time.Minute)
			follows, stays := open(), open()
			config := func(s core.Store, by string) core.Config {
				return core.Config{Store: s, Version: by, Timeout: time.Minute, Limits: []core.Limit{core.PerDay(quota).FixedWindow().By(keys[by]).Named("client")}}
			}
			var live compose.Live
			one := must.Get(live.Limiter(config(follows, "ip")))(t)
			other := must.Get(core.New(config(stays, "ip")))(t)
			granted := map[string]*atomic.Int64{}
			for _, by := range order {
				granted[by] = new(atomic.Int64)
			}
			ask := func() {
				for _, l := range []*core.Limiter{one, other} {
					if d := l.Allow(client); d.Allowed {
						granted[d.Version()].Add(1)
					} else if d.Err != nil {
						t.Error(d.Err)
					}
				}
			}
			var all sync.WaitGroup
			done := make(chan struct{})
			for range 4 {
				all.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
							ask()
						}
					}
				})
			}
			for i := range 40 {
				check.OK(t, live.Replace(config(follows, order[(i+1)%len(order)])))
				for range 5 {
					ask()
				}
			}
			close(done)
			all.Wait()
			time.Sleep(2 * redisstore.DefaultPrefetchAge) // what slices have left is given back
			for _, by := range order {
				must.OK(t, live.Replace(config(follows, by)))
				for range quota {
					ask()
				}
			}
			for _, by := range order {
				if n := granted[by].Load(); n > quota || n < quota*9/10 {
					t.Errorf("by %s: %d of %d were granted", by, n, quota)
				}
			}
			t.Log(fmt.Sprint(granted["ip"].Load(), granted["user"].Load(), granted["tenant"].Load(), granted["secret"].Load()))
		})
	}
}
