package migrate

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	ratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// onRedis are the pairs on Redis. Each gets a server of its own, since what users copy has
// the default prefixes.
var onRedis = []struct {
	name       string
	peer, ours func(*testing.T, *redis.Client) server
	outage     string // how the peer answers once Redis is gone
}{
	{
		"ulule/limiter",
		func(t *testing.T, rdb *redis.Client) server { return served(must(ululeRedis(rdb, page))) },
		func(t *testing.T, rdb *redis.Client) server { return served(fromUluleRedis(rdb, page)) },
		"a panic",
	},
	{
		"httprate-redis",
		func(t *testing.T, rdb *redis.Client) server {
			return onChi(func(r chi.Router) { httpRateRedis(r, rdb) })
		},
		func(t *testing.T, rdb *redis.Client) server {
			return onChi(func(r chi.Router) { fromHTTPRateRedis(r, rdb) })
		},
		"200", // ten more, counted in this process
	},
	{
		"redis_rate",
		func(t *testing.T, rdb *redis.Client) server { return asServer(redisRate(rdb)) },
		func(t *testing.T, rdb *redis.Client) server { return asServer(fromRedisRate(rdb)) },
		"500", // an error, here
	},
	{
		"gin-rate-limit",
		func(t *testing.T, rdb *redis.Client) server {
			store := ratelimit.RedisStore(&ratelimit.RedisOptions{RedisClient: rdb, Rate: time.Minute, Limit: 10})
			return onGin(func(r *gin.Engine) { r.Use(ratelimit.RateLimiter(store, nil)) })
		},
		nil, "200", // without a limit
	},
	{
		"throttled",
		func(t *testing.T, rdb *redis.Client) server {
			store := must(goredisstore.NewCtx(rdb, "throttled:"))
			limiter := must(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(10), MaxBurst: 9}))
			limit := throttled.HTTPRateLimiterCtx{RateLimiter: limiter}
			return served(limit.RateLimit(page))
		},
		nil, "500",
	},
}

// Ten requests pass on Redis with the peer and with weblimit; then Redis goes down.
func TestOnRedis(t *testing.T) {
	t.Parallel()
	for _, p := range onRedis {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			redisServer := redistest.Start(t)
			rdb := redis.NewClient(&redis.Options{Network: redisServer.Network(), Addr: redisServer.Addr(), MaxRetries: -1})
			t.Cleanup(func() { _ = rdb.Close() })
			peer := p.peer(t, rdb)
			awayFromTheEdge()
			passTen(t, "the peer", peer)
			if p.ours != nil {
				passTen(t, "weblimit", p.ours(t, rdb))
			}
			redisServer.Kill()
			if got := status(t, peer); got != p.outage {
				t.Errorf("without Redis the peer answers with %s, want %s", got, p.outage)
			}
		})
	}
}

// awayFromTheEdge waits until the minute has some seconds left: the windows of all limiters
// here on Redis begin with the minute of the clock, or with the first request.
func awayFromTheEdge() {
	if left := time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)); left < 5*time.Second {
		time.Sleep(left + 100*time.Millisecond)
	}
}

func passTen(t *testing.T, who string, s server) {
	t.Helper()
	for n := range 12 {
		if got := s(t, get, client, "").status == http.StatusOK; got != (n < 10) {
			t.Errorf("%s: request %d of 12 passes: %t", who, n+1, got)
		}
	}
}

// status returns the status of a response, in words if the limiter panics.
func status(t *testing.T, s server) (what string) {
	t.Helper()
	defer func() {
		if recover() != nil {
			what = "a panic"
		}
	}()
	return fmt.Sprint(s(t, get, client, "").status)
}

// asServer makes a server of a limiter that knows no HTTP: an error is the status 500.
func asServer(allow ask) server {
	return func(t *testing.T, _, _, _ string) response {
		t.Helper()
		allowed, remaining, wait, err := allow(t.Context())
		switch {
		case err != nil:
			return response{status: http.StatusInternalServerError}
		case allowed && wait <= 0 && remaining >= 0:
			return response{status: http.StatusOK}
		case !allowed && wait > 0 && remaining == 0:
			return response{status: http.StatusTooManyRequests}
		}
		t.Fatalf("allowed %t, %d remaining, wait %v", allowed, remaining, wait)
		return response{}
	}
}
