package examples_test

import (
	"crypto/tls"
	"log"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// The code of docs about Redis and proxies: see readme_test.go.

func docsClient() core.Store {
	options := &redis.Options{
		Addr:         "redis.internal:6379",
		Username:     "weblimit",
		Password:     os.Getenv("REDIS_PASSWORD"),
		MinIdleConns: 2,
		TLSConfig:    &tls.Config{MinVersion: tls.VersionTLS12},
	}
	options.Dialer = redisstore.NewDialer(options)
	store := redisstore.New(redis.NewClient(options))
	return store
}

func docsTopologies() []core.Store {
	sentinel := redisstore.New(redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "limits",
		SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
	}))
	cluster := redisstore.New(redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:  []string{"node-1:6379", "node-2:6379", "node-3:6379"},
		Dialer: redisstore.NewDialer(&redis.Options{}),
	}))
	return []core.Store{sentinel, cluster}
}

func docsPrefetch(rdb *redis.Client) core.Store {
	store := redisstore.New(rdb, redisstore.Config{
		Prefetch: redisstore.Prefetch{Fraction: 0.01, MaxAge: 200 * time.Millisecond},
	})
	return store
}

func docsProxies() []keyfuncs.Func {
	// The subnets of the load balancer, and nothing else in them.
	behindALB := keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.1.0/24", "10.0.2.0/24"))

	direct := keyfuncs.ClientIP(keyfuncs.Cloudflare())                                               // Cloudflare connects to the process
	throughNginx := keyfuncs.ClientIP(keyfuncs.Cloudflare("127.0.0.1"))                              // to a proxy here, configured as above
	throughTunnel := keyfuncs.ClientIP(keyfuncs.SingleHeader("CF-Connecting-IP", keyfuncs.Loopback)) // cloudflared on this machine

	// The network of the pods, which holds the ingress controller.
	behindIngress := keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.244.0.0/16"))

	return []keyfuncs.Func{behindALB, direct, throughNginx, throughTunnel, behindIngress}
}

func docsCheck() core.Limit {
	strategy := keyfuncs.TrustedProxies("127.0.0.1")
	logged := keyfuncs.CustomAddr(func(r keyfuncs.Request) (netip.Addr, bool) {
		addr, ok := strategy.Addr(r)
		log.Print("client ", addr)
		return addr, ok
	})
	limit := core.PerMinute(100).By(keyfuncs.ClientIP(logged)).Named("client")
	return limit
}

// The check of docs/run/proxies.md finds the address that curl sends from.
func TestDocumentedCheck(t *testing.T) {
	t.Parallel()
	key := keyfuncs.ClientIP(keyfuncs.TrustedProxies("127.0.0.1"))
	for from, want := range map[string]string{
		"203.0.113.9": "ip:203.0.113.9",  // another machine
		"127.0.0.2":   "ip:127.0.0.2",    // curl --interface on the proxy's machine
		"127.0.0.1":   "ip:198.51.100.1", // curl there without it
	} {
		if got, _ := key.Key(keyfuncs.Values{"ip": "127.0.0.1", "X-Forwarded-For": "198.51.100.1, " + from}); got != want {
			t.Errorf("from %s: %s, want %s", from, got, want)
		}
	}
}

func docsExempt(r *gin.Engine, store core.Store) {
	proxies := keyfuncs.TrustedProxies("127.0.0.1")
	limits := ginlimit.With(core.Config{
		Store:  store,
		Bypass: []keyfuncs.Condition{proxies.FromCIDR("192.0.2.0/24")}, // the office, seen through the proxy
	})
	r.Use(limits.Limit(core.PerMinute(100).By(keyfuncs.ClientIP(proxies)).Named("client")))
}

// The strategies of docs/run/proxies.md are valid.
func TestDocumentedStrategies(t *testing.T) {
	t.Parallel()
	for _, key := range docsProxies() {
		if err := key.Err(); err != nil {
			t.Error(err)
		}
	}
}

var _, _, _, _ = docsClient, docsTopologies, docsPrefetch, docsRegions // compiled, and not called: there are no such servers

var _, _ = docsCheck, docsExempt

func docsRegions(here, atHome *redis.Client) (*core.Limiter, error) {
	local, home := redisstore.New(here), redisstore.New(atHome)
	store, err := regions.New(local, home, regions.Config{Region: "eu", Regions: 3})
	if err != nil {
		return nil, err
	}
	return core.New(core.Config{
		Store:   store,
		Timeout: 200 * time.Millisecond, // a request may wait for home
		Limits: []core.Limit{
			core.PerMinute(600).By(keyfuncs.APIKey("X-API-Key")).Named("key"),                                                  // once over all regions
			core.PerMinute(600).By(keyfuncs.APIKey("X-API-Key")).Named("reads").Overdraft(60),                                  // and up to 60 more in each
			core.PerSecond(5000).By(keyfuncs.Everyone()).Named("region").Regions(core.InEachRegion),                            // what a region can bear
			core.PerMinute(5).By(keyfuncs.ClientIP()).When(keyfuncs.Routes("POST /login")).Named("login").Regions(core.AtHome), // a round trip, and exact
		},
	})
}
