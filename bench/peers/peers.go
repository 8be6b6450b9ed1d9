// Package peers puts rate limiters behind one small interface, one file for each. A peer is
// set up as its documentation recommends and, where that leaves a choice, in its fastest way.
package peers

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
)

// Peer is a rate limiter, with the forms that it has.
type Peer struct {
	Name     string // in the names of benchmarks
	Module   string // whose version is measured
	Counts   string // how, in words
	Baseline bool   // not a product, but a baseline

	Redis  func(Server, Quota) (Limiter, error)
	Memory func(Quota) (Limiter, error)
	HTTP   func(Quota) (func(http.Handler) http.Handler, error) // in memory, by client address
	Gin    func(Quota) (gin.HandlerFunc, error)                 // in memory, by client address
	Echo   func(Quota) (echo.MiddlewareFunc, error)             // in memory, by client address
	Fiber  func(Quota) (fiber.Handler, error)                   // in memory, by client address
	Silent bool                                                 // middleware tells clients nothing

	GinRedis func(Server, Quota) (gin.HandlerFunc, error) // on Redis, by client address

	// Scenario reports whether a scenario on Redis is meaningful for this peer; nil if all are.
	Scenario func(keys int, allowed bool) bool
}

// All returns all peers, ours first.
func All() []Peer {
	return []Peer{
		weblimitBucket, weblimitFixed, weblimitSeveral, weblimitFive, weblimitUncached, weblimitPrefetch, weblimitNoContext, weblimitSilent,
		redisRate, ulule, throttled, goLimiter, httpRate, ginRateLimit, tollBooth, echoBuiltIn, fiberBuiltIn, timeRate,
		rueidisLimiter, goRedisScript, goRedisAuto, goRedisDuplex, rueidisScript, combinerPeer, combinerExact, floor, floorContext, floorSilent,
	}
}

// Limiter is a peer at work. Check charges one unit to key, and may be called concurrently.
type Limiter struct {
	Check func(ctx context.Context, key string) (allowed bool, err error)
	Close func() // nil if there is nothing to close
}

// Quota is a number of units per window, and the burst of peers that have one.
type Quota struct {
	Units  int64
	Window time.Duration
}

// The quotas of the scenarios. Whatever is allowed leaves a debt that outlasts the run, so
// that no peer starts from an expired key each time.
var (
	// OneKey allows all that one key is asked for in a run.
	OneKey = Quota{1_000_000_000, 24 * time.Hour}
	// ManyKeys does so for one of 100,000 keys or more.
	ManyKeys = Quota{10_000, 2400 * time.Hour}
	// Denied denies each key from the second check on.
	Denied = Quota{1, 1000 * time.Hour}
)

// Server is a database of a Redis server that a limiter has to itself.
type Server struct {
	Network, Addr string
	DB            int
	Timeout       time.Duration // of weblimit's checks, and of go-redis; 0 for their defaults

	// Dial connects peers on go-redis; nil for as usual.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// client returns a go-redis client with its defaults. A larger pool than the default, ten
// connections for each processor, was slower or no faster for every peer, with 64 goroutines
// and with 256.
func (s Server) client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Network: s.Network, Addr: s.Addr, DB: s.DB, Dialer: s.Dial, ReadTimeout: s.Timeout, WriteTimeout: s.Timeout, PoolTimeout: s.Timeout,
	})
}

// clientIP is the key of middleware that leaves the choice to us.
func clientIP(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return host, err
}
