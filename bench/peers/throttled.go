package peers

import (
	"context"
	"net/http"

	throttledv2 "github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/throttled/throttled/v2/store/memstore"
)

var throttled = Peer{
	Name: "throttled", Module: "github.com/throttled/throttled/v2", Counts: "GCRA, by compare and swap",
	Redis: func(s Server, q Quota) (Limiter, error) {
		client := s.client()
		store, err := goredisstore.NewCtx(client, "throttled:")
		if err != nil {
			return Limiter{}, err
		}
		l, err := throttledOn(store, q)
		l.Close = func() { _ = client.Close() }
		return l, err
	},
	Memory: func(q Quota) (Limiter, error) {
		store, err := memstore.NewCtx(0) // unbounded: its bounded store is slower
		if err != nil {
			return Limiter{}, err
		}
		return throttledOn(store, q)
	},
	HTTP: func(q Quota) (func(http.Handler) http.Handler, error) {
		store, err := memstore.NewCtx(0)
		if err != nil {
			return nil, err
		}
		l, err := throttledv2.NewGCRARateLimiterCtx(store, throttledQuota(q))
		m := throttledv2.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: &throttledv2.VaryBy{RemoteAddr: true}}
		return m.RateLimit, err
	},
}

func throttledQuota(q Quota) throttledv2.RateQuota {
	return throttledv2.RateQuota{
		MaxRate:  throttledv2.PerDuration(int(q.Units), q.Window),
		MaxBurst: int(q.Units) - 1, // it counts the first unit apart
	}
}

func throttledOn(store throttledv2.GCRAStoreCtx, q Quota) (Limiter, error) {
	l, err := throttledv2.NewGCRARateLimiterCtx(store, throttledQuota(q))
	if err != nil {
		return Limiter{}, err
	}
	return Limiter{Check: func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	}}, nil
}
