package examples_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
)

// The code of docs/run/rollout.md.

func rolloutShadow(api *gin.RouterGroup, store *redisstore.Store, metrics core.Observer) {
	heavy := top.New(top.Config{Exchange: store.Exchange()})
	defer heavy.Close()
	limits := ginlimit.With(core.Config{Store: store, Observe: core.Observers(metrics, heavy)})

	perUser := core.PerMinute(60).By(keyfuncs.User("user")).Named("api")
	api.Use(limits.Limit(perUser.Shadow()))
}

func rolloutChoose(ctx context.Context, heavy *top.Tracker) error {
	snapshot, err := heavy.Collect(ctx)
	if err != nil {
		return err
	}
	if api := snapshot.Limit("api"); api != nil {
		if s, ok := api.Use.Suggest(0.995); ok {
			fmt.Printf("99.5 %% of %d clients stay within %d per %v (%d to %d)\n", s.Clients, s.Quota, s.Window, s.Low, s.High)
		}
		fmt.Printf("60 would be enough for %.1f %% of them\n", 100*api.Use.Share(60))
	}
	return nil
}

func rolloutFew(api *gin.RouterGroup, limits *ginlimit.Settings) {
	perUser := core.PerMinute(240).By(keyfuncs.User("user"))
	few := keyfuncs.Percent(5, keyfuncs.User("user"))
	api.Use(limits.Limit(
		perUser.Named("api").When(few),
		perUser.Named("api-trial").Unless(few).Shadow(),
	))
}

func rolloutSwitch(perUser core.Limit) (core.Limit, *atomic.Bool) {
	var enforced atomic.Bool // set by your feature flags
	perUser = perUser.When(keyfuncs.Matches(func(keyfuncs.Request) bool { return enforced.Load() }))
	return perUser, &enforced
}

var _, _, _, _ = rolloutShadow, rolloutChoose, rolloutFew, rolloutSwitch // compiled; TestARollOut runs what they show

// crowd is a number of clients, of which most send little and few send much: rates are
// log-normal, 12 per minute in the middle and some 160 at 99.5 %.
type crowd []person

type person struct {
	rate    float64 // per minute
	request keyfuncs.Values
}

func newCrowd(clients int) crowd {
	random := rand.New(rand.NewPCG(1, 1))
	c := make(crowd, clients)
	for i := range c {
		c[i] = person{12 * math.Exp(random.NormFloat64()), keyfuncs.Values{"user": fmt.Sprint(i)}}
	}
	return c
}

// send sends requests at random times, and calls denied for those that are denied.
func (c crowd) send(l *core.Limiter, seed uint64, minutes int, denied func(client int, d core.Decision)) {
	random := rand.New(rand.NewPCG(seed, 2))
	const perMinute = 60
	for range minutes * perMinute {
		for client, p := range c {
			for left := p.rate / perMinute; left > 0; left-- {
				if random.Float64() >= left {
					continue
				}
				if d := l.Allow(p.request); !d.Allowed || d.Reason == core.ReasonShadowed {
					denied(client, d)
				}
			}
		}
		time.Sleep(time.Minute / perMinute)
	}
}

// The whole way of docs/run/rollout.md: what a limit in shadow mode would deny is seen, the number
// that is chosen from it denies about as many clients as was promised, and a limit for some
// denies nobody else.
func TestARollOut(t *testing.T) {
	race.Skip(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const clients, minutes, guess, promised = 1000, 8, 60, 0.995
		people := newCrowd(clients)
		perUser := func(quota int64) core.Limit { return core.PerMinute(quota).By(keyfuncs.User("user")).Named("api") }
		limiter := func(o core.Observer, limits ...core.Limit) *core.Limiter {
			return core.Must(core.New(core.Config{Store: core.NewMemory(), Limits: limits, Observe: o}))
		}

		heavy := top.New(top.Config{})
		defer heavy.Close()
		would := map[int]int64{}
		people.send(limiter(heavy, perUser(guess).Shadow()), 1, minutes, func(client int, d core.Decision) {
			if !d.Allowed {
				t.Fatalf("a limit in shadow mode has denied a request: %v", d.Reason)
			}
			would[client]++
		})
		seen := heavy.Snapshot().Limit("api")
		if !seen.Shadow || seen.Quota != guess || len(seen.MostDenied(1)) == 0 || seen.MostDenied(1)[0].Hour.WouldDeny == 0 {
			t.Errorf("who would be denied is not seen: %+v", seen)
		}
		total, counted := int64(0), int64(0)
		for _, n := range would {
			total += n
		}
		for _, n := range seen.Rates.Minutes.WouldDeny {
			counted += n
		}
		if counted == 0 || counted > total || counted < total*8/10 { // the minute that has not ended is left out
			t.Errorf("%d of %d requests are counted as would-be-denied", counted, total)
		}
		if said, was := 1-seen.Use.Share(guess), float64(len(would))/clients; math.Abs(said-was) > 0.02 {
			t.Errorf("%.3f of the clients use more than %d, and %.3f would have been denied", said, guess, was)
		}

		s, ok := seen.Use.Suggest(promised)
		if !ok || s.Clients != clients || s.Window != time.Minute || s.Low != s.Quota || s.High != s.Quota {
			t.Fatalf("the suggestion is %+v, %v", s, ok)
		}
		t.Logf("%d would deny %.1f %% of the clients; %v of them stay within %d per minute", guess, 100*(1-seen.Use.Share(guess)), promised, s.Quota)

		few := keyfuncs.Percent(5, keyfuncs.User("user"))
		tried, untried := map[int]bool{}, map[int]bool{}
		people.send(limiter(nil, perUser(guess).When(few), perUser(guess).Named("api-trial").Unless(few).Shadow()), 2, minutes, func(client int, d core.Decision) {
			if isFew := few.Match(people[client].request); isFew == d.Allowed {
				t.Fatalf("client %d, who is one of few: %v, got %v", client, isFew, d.Reason)
			}
			if d.Allowed {
				untried[client] = true
			} else {
				tried[client] = true
			}
		})
		if len(tried) == 0 || len(tried) > len(untried)/4 {
			t.Errorf("%d clients are denied, %d would be; the limit is enforced for 5 %%", len(tried), len(untried))
		}

		denied := map[int]bool{}
		people.send(limiter(nil, perUser(s.Quota)), 3, minutes, func(client int, _ core.Decision) { denied[client] = true })
		share := float64(len(denied)) / clients
		t.Logf("%.1f %% of the clients are denied", 100*share)
		if promise := 1 - promised; share < promise/4 || share > 3*promise {
			t.Errorf("%.2f %% of the clients are denied by %d per minute, want about the %.1f %% that were promised", 100*share, s.Quota, 100*promise)
		}
	})
}
