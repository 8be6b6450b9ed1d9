package migrate

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	ratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"

	"github.com/weblimit/weblimit/internal/test/edge"
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
			rdb := redisServer.ClientWith(t, &redis.Options{MaxRetries: -1, ReadTimeout: time.Minute})
			peer := passTen(t, "the peer", p.peer, rdb)
			if p.ours != nil {
				passTen(t, "weblimit", p.ours, rdb)
			}
			redisServer.Kill()
			if got := status(t, peer); got != p.outage {
				t.Errorf("without Redis the peer answers with %s, want %s", got, p.outage)
			}
		})
	}
}

// passTen returns a server of which the first ten requests of twelve pass. It makes up to twenty: on a
// busy machine the requests can take until some are regained, or Redis may take longer than a limiter waits.
func passTen(t *testing.T, who string, serve func(*testing.T, *redis.Client) server, rdb *redis.Client) server {
	t.Helper()
	for attempt := 1; ; attempt++ {
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		s := serve(t, rdb)
		// The windows of all limiters here on Redis begin with the minute of the clock, or with the first request.
		edge.AwayFrom(time.Minute, 5*time.Second)
		var passed []bool
		for range 12 {
			passed = append(passed, s(t, get, client, "").status == http.StatusOK)
		}
		switch {
		case slices.Equal(passed, append(slices.Repeat([]bool{true}, 10), false, false)):
			return s
		case attempt == 20:
			t.Errorf("%s: of 12 requests pass %v, want the first ten", who, passed)
			return s
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
