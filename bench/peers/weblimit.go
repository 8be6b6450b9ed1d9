package peers

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

const weblimitModule = "github.com/weblimit/weblimit"

var weblimitBucket = Peer{
	Name: "weblimit", Module: weblimitModule, Counts: "token bucket, exact",
	Redis: func(s Server, q Quota) (Limiter, error) {
		return weblimitRedis(s, redisstore.Config{}, weblimitQuota(q))
	},
	Memory: func(q Quota) (Limiter, error) {
		// The default bounds the store to a little more than a million buckets: room for
		// two million, so that the scenario of a million keys evicts none.
		return weblimitOn(memstore.New(memstore.Config{MaxBuckets: 2 * memstore.DefaultMaxBuckets}), 0, weblimitQuota(q))
	},
	HTTP: func(q Quota) (func(http.Handler) http.Handler, error) {
		return nethttp.Limit(core.NewMemory(), weblimitQuota(q).By(keyfuncs.ClientIP())), nil
	},
	Gin: func(q Quota) (gin.HandlerFunc, error) {
		return ginlimit.Limit(core.NewMemory(), weblimitQuota(q).By(keyfuncs.ClientIP())), nil
	},
	Echo: func(q Quota) (echo.MiddlewareFunc, error) {
		return echolimit.Limit(core.NewMemory(), weblimitQuota(q).By(keyfuncs.ClientIP())), nil
	},
	Fiber: func(q Quota) (fiber.Handler, error) {
		return fiberlimit.Limit(core.NewMemory(), weblimitQuota(q).By(keyfuncs.ClientIP())), nil
	},
	GinRedis: func(s Server, q Quota) (gin.HandlerFunc, error) {
		limits := ginlimit.With(core.Config{Store: redisstore.New(s.client()), Timeout: s.Timeout})
		return limits.Limit(weblimitQuota(q).By(keyfuncs.ClientIP())), nil
	},
}

// weblimitFixed counts as ulule and the baselines do.
var weblimitFixed = Peer{
	Name: "weblimit-fixed", Module: weblimitModule, Counts: "fixed window, exact",
	Redis: func(s Server, q Quota) (Limiter, error) {
		return weblimitRedis(s, redisstore.Config{}, weblimitQuota(q).FixedWindow())
	},
}

// weblimitSeveral has three limits of one key, as APIs often do.
var weblimitSeveral = Peer{
	Name: "weblimit-3", Module: weblimitModule, Counts: "three token buckets of one key, all or nothing",
	Redis: func(s Server, q Quota) (Limiter, error) { return Limits(s, q, 3) },
}

// weblimitFive has as many limits of each of many keys as requests rarely have.
var weblimitFive = Peer{
	Name: "weblimit-5", Module: weblimitModule, Counts: "five token buckets of one key, all or nothing",
	Redis:    func(s Server, q Quota) (Limiter, error) { return Limits(s, q, 5) },
	Scenario: func(keys int, allowed bool) bool { return keys > 1 && allowed },
}

// weblimitUncached asks Redis each time, even for clients that were just denied.
var weblimitUncached = Peer{
	Name: "weblimit-uncached", Module: weblimitModule, Counts: "as weblimit, without its denial cache",
	Redis: func(s Server, q Quota) (Limiter, error) {
		return weblimitRedis(s, redisstore.Config{DenialCache: redisstore.DenialCache{Disabled: true}}, weblimitQuota(q))
	},
	Scenario: func(_ int, allowed bool) bool { return !allowed },
}

// weblimitPrefetch takes slices of the quota to decide by itself: for keys that are asked for more
// often than one Redis can answer.
var weblimitPrefetch = Peer{
	Name: "weblimit-prefetch", Module: weblimitModule, Counts: "as weblimit, with a tenth of the quota prefetched for up to a second",
	Redis: func(s Server, q Quota) (Limiter, error) {
		return weblimitRedis(s, redisstore.Config{Prefetch: redisstore.Prefetch{Fraction: 0.1, MaxAge: time.Second}}, weblimitQuota(q))
	},
	Scenario: func(keys int, allowed bool) bool { return keys == 1 && allowed },
}

// Limits is weblimit on Redis with so many limits of each key: token buckets that allow ever
// more in ever longer windows.
func Limits(s Server, q Quota, n int) (Limiter, error) {
	limits := make([]core.Limit, n)
	for i := range limits {
		more := int64(i + 1)
		limits[i] = weblimitQuota(Quota{q.Units * more, q.Window * time.Duration(more*more)}).Named("limit" + strconv.Itoa(i))
	}
	return weblimitRedis(s, redisstore.Config{}, limits...)
}

func weblimitQuota(q Quota) core.Limit { return core.Per(q.Units, q.Window) }

func weblimitRedis(s Server, config redisstore.Config, limits ...core.Limit) (Limiter, error) {
	client := s.client()
	l, err := weblimitOn(redisstore.New(client, config), s.Timeout, limits...)
	l.Close = func() { _ = client.Close() }
	return l, err
}

// weblimitOn makes checks as users do without HTTP: with the deadline and the outage action. An
// outage counts as an error here.
func weblimitOn(store core.Store, timeout time.Duration, limits ...core.Limit) (Limiter, error) {
	for i := range limits {
		limits[i] = limits[i].By(keyfuncs.Everyone())
	}
	limiter, err := core.New(core.Config{Store: store, Limits: limits, Timeout: timeout})
	if err != nil {
		return Limiter{}, err
	}
	return Limiter{Check: func(ctx context.Context, key string) (bool, error) {
		d := limiter.AllowKey(ctx, key, 1)
		return d.Allowed, d.Err
	}}, nil
}
