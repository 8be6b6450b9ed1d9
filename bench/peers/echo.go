package peers

import (
	"context"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"golang.org/x/time/rate"
)

// echoBuiltIn is Echo's own middleware. Its default key is what Echo takes for the client's
// address.
var echoBuiltIn = Peer{
	Name: "echo", Module: "github.com/labstack/echo/v4", Counts: "token bucket in floating point; no headers", Silent: true,
	Memory: func(q Quota) (Limiter, error) {
		store := echoStore(q)
		return Limiter{Check: func(_ context.Context, key string) (bool, error) { return store.Allow(key) }}, nil
	},
	Echo: func(q Quota) (echo.MiddlewareFunc, error) { return middleware.RateLimiter(echoStore(q)), nil },
}

func echoStore(q Quota) *middleware.RateLimiterMemoryStore {
	return middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
		Rate: rate.Limit(float64(q.Units) / q.Window.Seconds()), Burst: int(q.Units), ExpiresIn: q.Window,
	})
}
