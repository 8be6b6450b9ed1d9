package peers

import (
	"context"
	"net/http"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
)

var goLimiter = Peer{
	Name: "go-limiter", Module: "github.com/sethvargo/go-limiter", Counts: "fixed window, per key from its first use",
	Memory: func(q Quota) (Limiter, error) {
		store, err := goLimiterStore(q)
		if err != nil {
			return Limiter{}, err
		}
		return Limiter{
			Check: func(ctx context.Context, key string) (bool, error) {
				_, _, _, ok, err := store.Take(ctx, key)
				return ok, err
			},
			Close: func() { _ = store.Close(context.Background()) },
		}, nil
	},
	HTTP: func(q Quota) (func(http.Handler) http.Handler, error) {
		store, err := goLimiterStore(q)
		if err != nil {
			return nil, err
		}
		m, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
		if err != nil {
			return nil, err
		}
		return m.Handle, nil
	},
}

func goLimiterStore(q Quota) (limiter.Store, error) {
	return memorystore.New(&memorystore.Config{Tokens: uint64(q.Units), Interval: q.Window})
}
