package peers

import (
	"context"
	"fmt"
	"net/http"
	"time"

	ratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"
)

var ginRateLimit = Peer{
	Name: "gin-rate-limit", Module: "github.com/JGLTechnologies/gin-rate-limit", Counts: "fixed window since the last allowed check; reads, then writes",
	Redis: func(s Server, q Quota) (Limiter, error) {
		client := s.client()
		// Without PanicOnErr it allows what Redis did not answer, and does not say so.
		store := ratelimit.RedisStore(&ratelimit.RedisOptions{RedisClient: client, Rate: q.Window, Limit: uint(q.Units), PanicOnErr: true})
		return Limiter{
			Check: func(_ context.Context, key string) (allowed bool, err error) {
				defer func() {
					if p := recover(); p != nil {
						err = fmt.Errorf("panic: %v", p)
					}
				}()
				return !store.Limit(key, nil).RateLimited, nil
			},
			Close: func() { _ = client.Close() },
		}, nil
	},
	Memory: func(q Quota) (Limiter, error) {
		store := ginRateLimitStore(q)
		return Limiter{Check: func(_ context.Context, key string) (bool, error) {
			return !store.Limit(key, nil).RateLimited, nil
		}}, nil
	},
	Gin: func(q Quota) (gin.HandlerFunc, error) {
		return ratelimit.RateLimiter(ginRateLimitStore(q), &ratelimit.Options{
			KeyFunc: func(c *gin.Context) string { return c.ClientIP() },
			ErrorHandler: func(c *gin.Context, info ratelimit.Info) {
				c.String(http.StatusTooManyRequests, "Too many requests. Try again in "+time.Until(info.ResetTime).String())
			},
		}), nil
	},
}

func ginRateLimitStore(q Quota) ratelimit.Store {
	return ratelimit.InMemoryStore(&ratelimit.InMemoryOptions{Rate: q.Window, Limit: uint(q.Units)})
}
