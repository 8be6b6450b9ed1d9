package peers

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

var ulule = Peer{
	Name: "ulule", Module: "github.com/ulule/limiter/v3", Counts: "fixed window; counts denied checks too",
	Redis: func(s Server, q Quota) (Limiter, error) {
		client := s.client()
		store, err := ululeredis.NewStore(client)
		if err != nil {
			return Limiter{}, err
		}
		l := ululeOn(store, q)
		l.Close = func() { _ = client.Close() }
		return l, nil
	},
	Memory: func(q Quota) (Limiter, error) { return ululeOn(ululememory.NewStore(), q), nil },
	HTTP: func(q Quota) (func(http.Handler) http.Handler, error) {
		return stdlib.NewMiddleware(limiter.New(ululememory.NewStore(), ululeRate(q))).Handler, nil
	},
	Gin: func(q Quota) (gin.HandlerFunc, error) {
		return ululegin.NewMiddleware(limiter.New(ululememory.NewStore(), ululeRate(q))), nil
	},
	GinRedis: func(s Server, q Quota) (gin.HandlerFunc, error) {
		store, err := ululeredis.NewStore(s.client())
		if err != nil {
			return nil, err
		}
		return ululegin.NewMiddleware(limiter.New(store, ululeRate(q))), nil
	},
}

func ululeRate(q Quota) limiter.Rate { return limiter.Rate{Period: q.Window, Limit: q.Units} }

func ululeOn(store limiter.Store, q Quota) Limiter {
	l := limiter.New(store, ululeRate(q))
	return Limiter{Check: func(ctx context.Context, key string) (bool, error) {
		c, err := l.Get(ctx, key)
		return err == nil && !c.Reached, err
	}}
}
