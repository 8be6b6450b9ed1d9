package peers

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

const weblimitModule = "github.com/weblimit/weblimit"

var weblimitBucket = Peer{
	Name: "weblimit", Module: weblimitModule, Counts: "token bucket, exact",
	Redis: func(s Server, q Quota) (Limiter, error) { return weblimitRedis(s, weblimitQuota(q)) },
	Memory: func(q Quota) (Limiter, error) {
		// The default bounds the store to a little more than a million buckets: room for
		// two million, so that the scenario of a million keys evicts none.
		store, err := core.NewMemoryWith(core.MemoryConfig{MaxBuckets: 2 * core.DefaultMaxBuckets})
		if err != nil {
			return Limiter{}, err
		}
		return weblimitOn(store, weblimitQuota(q))
	},
	HTTP: func(q Quota) (func(http.Handler) http.Handler, error) {
		return nethttp.Limit(core.NewMemory(), weblimitQuota(q).By(keyfuncs.ClientIP())), nil
	},
	Gin: func(q Quota) (gin.HandlerFunc, error) {
		return ginlimit.Limit(core.NewMemory(), weblimitQuota(q).By(keyfuncs.ClientIP())), nil
	},
}

// weblimitFixed counts as ulule and the baselines do.
var weblimitFixed = Peer{
	Name: "weblimit-fixed", Module: weblimitModule, Counts: "fixed window, exact",
	Redis: func(s Server, q Quota) (Limiter, error) {
		return weblimitRedis(s, weblimitQuota(q).FixedWindow())
	},
}

func weblimitQuota(q Quota) core.Limit { return core.Per(q.Units, q.Window) }

func weblimitRedis(s Server, limit core.Limit) (Limiter, error) {
	client := s.client()
	l, err := weblimitOn(redisstore.New(client), limit)
	l.Close = func() { _ = client.Close() }
	return l, err
}

// weblimitOn asks as users do without HTTP, with all that this includes: the deadline, and
// what happens in an outage, which counts as an error here.
func weblimitOn(store core.Store, limit core.Limit) (Limiter, error) {
	limiter, err := core.New(core.Config{Store: store, Limits: []core.Limit{limit.By(keyfuncs.Everyone())}})
	if err != nil {
		return Limiter{}, err
	}
	return Limiter{Check: func(ctx context.Context, key string) (bool, error) {
		d := limiter.AllowKey(ctx, key, 1)
		return d.Allowed, d.Err
	}}, nil
}
