package fair

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// order is what a process is to do.
type order struct {
	Way     string // through which clients ask: a key of ways
	Redis   string // the socket
	Service string // the URL of the service, for that way
	Prefix  string
	Seed    uint64
	For     time.Duration
	Busy    bool // whether the busy client asks, too
}

// report is what a process saw.
type report struct {
	Light, LightDenied int
	Busy, BusyGranted  int
	Failed             int             // neither granted nor denied
	Took               []time.Duration // each request of a light client
	Late               time.Duration   // the longest time by which a request began or ended late: the machine stood still
}

// The clients and what they ask for, over all processes. The busy one asks for 50 times its share.
const (
	processes = 8
	capacity  = 400 // units a second
	lights    = 100
	share     = float64(capacity) / (lights + 1)
	lightRate = 0.8 * share
	busyRate  = 50 * share
)

func limit() core.Limit {
	return core.PerSecond(capacity).By(keyfuncs.Everyone()).Named("capacity").OnOutage(core.Deny).Fair(core.Shares{By: keyfuncs.Header("X-Client")})
}

// ask is one request of a client: 200, 429 or what else it got.
type ask func(client string) (status int)

// ways are how a process serves its clients.
var ways = map[string]func(t *testing.T, o order) ask{
	"Gin":     throughGin,
	"gRPC":    throughGRPC,
	"service": throughService,
}

// opened returns the store of a process.
func (o order) opened(t *testing.T) core.Store {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: o.Redis})
	t.Cleanup(func() { _ = client.Close() })
	return redisstore.New(client, redisstore.Config{Prefix: o.Prefix})
}

func (o order) limiter(t *testing.T) *core.Limiter {
	return must.Get(core.New(core.Config{Store: o.opened(t), Limits: []core.Limit{limit()}, Timeout: time.Minute}))(t)
}

func throughGin(t *testing.T, o order) ask {
	gin.SetMode(gin.ReleaseMode)
	app := gin.New()
	app.Use(ginlimit.New(o.limiter(t)))
	app.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })
	return func(client string) int {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-Client", client)
		w := httptest.NewRecorder()
		app.ServeHTTP(w, r)
		return w.Code
	}
}

// clients is a process.
var clients = child.NewRole("clients", func(t *testing.T, parent *child.Parent, o order) {
	request := ways[o.Way](t, o)
	_ = request("warm-up") // connections, and the script
	parent.Send("ready")
	if !parent.Receive(new(string)) {
		return
	}
	var mu sync.Mutex
	var all report
	var asking sync.WaitGroup
	for i := range lights {
		asking.Go(func() {
			rng := rand.New(rand.NewPCG(o.Seed, uint64(i)))
			name := fmt.Sprint("light-", i)
			pace(o.For, lightRate/processes, rng, func(late time.Duration) {
				began := time.Now()
				status := request(name)
				took := time.Since(began)
				mu.Lock()
				defer mu.Unlock()
				all.Light++
				all.Late = max(all.Late, late, took)
				all.Took = append(all.Took, took)
				switch status {
				case http.StatusOK:
				case http.StatusTooManyRequests:
					all.LightDenied++
				default:
					all.Failed++
				}
			})
		})
	}
	if o.Busy {
		asking.Go(func() {
			pace(o.For, busyRate/processes, rand.New(rand.NewPCG(o.Seed, lights)), func(time.Duration) {
				status := request("busy")
				mu.Lock()
				defer mu.Unlock()
				switch all.Busy++; status {
				case http.StatusOK:
					all.BusyGranted++
				case http.StatusTooManyRequests:
				default:
					all.Failed++
				}
			})
		})
	}
	asking.Wait()
	parent.Send(all)
})

// TestChild is the processes of other tests.
func TestChild(t *testing.T) { child.Run(t) }

// pace asks so many times a second, at random but evenly, and never faster to make up for a time in which it was held up.
func pace(lasts time.Duration, rate float64, rng *rand.Rand, ask func(late time.Duration)) {
	between := time.Duration(float64(time.Second) / rate)
	for next, end := time.Now().Add(time.Duration(rng.Int64N(int64(between)))), time.Now().Add(lasts); next.Before(end); {
		time.Sleep(time.Until(next))
		ask(time.Since(next))
		if next = next.Add(between/2 + time.Duration(rng.Int64N(int64(between)))); next.Before(time.Now()) {
			next = time.Now().Add(between / 2)
		}
	}
}
