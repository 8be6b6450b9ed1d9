package examples_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The code of the README and of docs comes from the functions below:
// TestReadmeBlocksAreCompiled looks for each block in the Go files of the
// examples, which are compiled.

func readmeStore() core.Store {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	store := redisstore.New(rdb)
	return store
}

func readmeGroups(r *gin.Engine, store core.Store, authenticate, export gin.HandlerFunc) *gin.RouterGroup {
	r.Use(ginlimit.Limit(store, core.PerSecond(100).By(keyfuncs.ClientIP()).Named("address")))

	api := r.Group("/api", authenticate, ginlimit.Limit(store,
		core.PerSecond(60).Burst(120).By(keyfuncs.User("customer")).Named("customer"),
		core.PerDay(100_000).FixedWindow().By(keyfuncs.User("customer")).Named("daily"),
		core.PerSecond(5000).By(keyfuncs.Everyone()).Named("global"),
	))
	api.POST("/export", ginlimit.Limit(store,
		core.PerSecond(20).By(keyfuncs.User("customer")).Cost(10).Named("export")), export)
	return api
}

func readmeWith(r *gin.Engine, store core.Store, monitoring string, perClient, perCustomer, login core.Limit, authenticate, handler gin.HandlerFunc) {
	limits := ginlimit.With(core.Config{
		Store:   store,
		Headers: core.Draft11 | core.XRateLimit,
		Bypass: []keyfuncs.Condition{
			keyfuncs.Routes("GET /healthz", "GET /readyz"),
			keyfuncs.Tokens("X-Bypass-Token", monitoring),
		},
	}, ginlimit.Config{
		Denied: func(c *gin.Context, d core.Decision) {
			c.JSON(d.Status(), gin.H{"error": "slow down", "retry_after": d.RetryAfter.Seconds()})
		},
	})
	r.Use(limits.Limit(perClient))                                  // all requests
	api := r.Group("/api", authenticate, limits.Limit(perCustomer)) // a group
	api.POST("/login", limits.Limit(login), handler)                // one route
}

func readmeKeys() []core.Limit {
	perUser := core.PerMinute(300).By(keyfuncs.User("user")).Named("user")
	perRoute := core.PerMinute(60).By(keyfuncs.ClientIP(), keyfuncs.Route()).Named("route")
	either := core.PerMinute(100).By(keyfuncs.First(keyfuncs.User("user"), keyfuncs.ClientIP())).Named("client")
	perItem := core.PerMinute(60).By(ginlimit.Key("item", func(c *gin.Context) string { return c.Param("id") })).Named("item")
	return []core.Limit{perUser, perRoute, either, perItem}
}

func readmeBypass(store core.Store, limits []core.Limit, monitoring, partner string) (*core.Limiter, error) {
	limiter, err := core.New(core.Config{
		Store:  store,
		Limits: limits,
		Bypass: []keyfuncs.Condition{
			keyfuncs.Routes("GET /healthz", "GET /readyz"),
			keyfuncs.Tokens("X-Bypass-Token", monitoring, partner),
			keyfuncs.FromCIDR("192.0.2.0/24"),
		},
	})
	return limiter, err
}

func readmeOutage(store *redisstore.Store, secondRedis *redis.Client, metrics func(kind, class, node string)) (*core.Limiter, error) {
	store.OnEvent(func(e core.Event) {
		metrics(e.Kind.String(), string(e.Class), e.Node)
	})
	limiter, err := core.New(core.Config{
		Store:    store,
		Limits:   []core.Limit{core.PerMinute(300).By(keyfuncs.User("user")).Named("user")},
		Replicas: 3,
		Fallback: core.Fallback{
			Store:  redisstore.New(secondRedis),
			Limits: []core.Limit{core.PerMinute(100).By(keyfuncs.User("user")).Named("in-an-outage")},
		},
	})
	return limiter, err
}

func readmePlan() core.Limit {
	plan := core.PerMinute(60).By(keyfuncs.User("user")).Named("plan").
		Tiers(func(r keyfuncs.Request) core.Limit {
			if r.Value("plan") == "premium" {
				return core.PerMinute(6000).Burst(10_000)
			}
			return core.Limit{} // the limit's own numbers
		}).
		CostBy(func(r keyfuncs.Request) int64 {
			if route, known := r.Route(); !known || route == "/batch" {
				return 10
			}
			return 1
		}).
		WarnAt(0.8, 0.95)
	return plan
}

// answer is the text of a model, and its cost.
type answer struct {
	Text   string
	Tokens int64
}

func readmeEstimate(api *gin.RouterGroup, store core.Store, ask func(c *gin.Context, most int64) answer) {
	tokens := core.PerMinute(10_000).By(keyfuncs.User("customer")).Named("tokens").
		Estimate(500).RefundOn(core.ServerErrors)

	api.POST("/chat", ginlimit.Limit(store, tokens), func(c *gin.Context) {
		answer := ask(c, 500)                 // tokens at most
		_ = ginlimit.Charge(c, answer.Tokens) // in place of the estimate, up or down
		c.String(http.StatusOK, answer.Text)
	})
}

func readmeBeyond(berlin *time.Location) []core.Limit {
	login := core.Per(5, 15*time.Minute).SlidingLog().By(keyfuncs.ClientIP()).Named("login").
		RefundOn(core.Successes).                                        // only failures count
		Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}) // then 2, 4, 8 … hours
	payments := core.PerHour(100).By(keyfuncs.User("user")).Named("payments").
		OncePer(keyfuncs.Header("Idempotency-Key"), 24*time.Hour)
	exports := core.Concurrent(2).By(keyfuncs.User("user")).Named("exports").
		Wait(10 * time.Second)
	plan := core.PerBillingMonth(100_000, 31, berlin).By(keyfuncs.User("user")).Named("quota").
		Soft(80_000)
	return []core.Limit{login, payments, exports, plan}
}

func readmeAdvice(store core.Store, limits []core.Limit) *core.Limiter {
	limiter := core.Must(core.New(core.Config{
		Store:   store,
		Limits:  limits,
		Silence: []core.Advice{core.AdviceForwarded},
	}))
	return limiter
}

func readmeHandler(r *gin.Engine) {
	r.GET("/quota", func(c *gin.Context) {
		d, _ := ginlimit.FromContext(c)
		limit, _ := d.Binding()
		c.JSON(http.StatusOK, gin.H{"limit": limit.Rule.Name, "remaining": limit.Remaining})
	})
}

func readmeJob(ctx context.Context, store core.Store, units int64, work func(context.Context) error) error {
	limiter := core.Must(core.New(core.Config{
		Store:  store,
		Limits: []core.Limit{core.PerMinute(100).By(keyfuncs.User("user")).Named("jobs")},
	}))
	for {
		d := limiter.AllowKey(ctx, keyfuncs.Encode("user", "42"), units)
		if d.Allowed {
			return work(ctx)
		}
		if d.RetryAfter == 0 { // waiting can't help, as with more units than the limit ever holds
			return fmt.Errorf("limited: %v", d.Reason)
		}
		select {
		case <-time.After(d.RetryAfter):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func readmeDenied(r *gin.Engine, limiter *core.Limiter) {
	r.Use(ginlimit.New(limiter, ginlimit.Config{
		Skip: func(c *gin.Context) bool { return c.FullPath() == "/healthz" },
		Denied: func(c *gin.Context, d core.Decision) {
			c.JSON(d.Status(), gin.H{"error": "slow down", "retry_after": d.RetryAfter.Seconds()})
		},
	}))
}

// The code of the README works together, on one store, as it stands there.
func TestReadmeCodeRuns(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.TestMode)
	_ = readmeStore() // talks to no server yet
	r, store := gin.New(), core.NewMemory()
	api := readmeGroups(r, store, func(*gin.Context) {}, func(*gin.Context) {})
	readmeHandler(r)
	every := func(name string) core.Limit { return core.PerHour(9).By(keyfuncs.Everyone()).Named(name) }
	readmeWith(r, store, "monitoring-0123456789", every("a"), every("b"), every("c"), func(*gin.Context) {}, func(*gin.Context) {})
	readmeEstimate(api, store, func(*gin.Context, int64) answer { return answer{"yes", 1} })
	core.ForLimits(core.NewMemory(), readmeBeyond(time.UTC))
	if _, err := readmeBypass(store, readmeKeys(), "monitoring-0123456789", "partner-0123456789"); err != nil {
		t.Error(err)
	}
	second := redis.NewClient(&redis.Options{Addr: "localhost:6380"}) // nor this
	if _, err := readmeOutage(redisstore.New(second), second, func(_, _, _ string) {}); err != nil {
		t.Error(err)
	}
	readmeAdvice(store, []core.Limit{readmePlan()})
	worked := 0
	work := func(context.Context) error { worked++; return nil }
	for units, want := range map[int64]string{1: "", 101: "limited: never fits"} { // the loop ends, whatever a job costs
		if err := readmeJob(t.Context(), core.NewMemory(), units, work); fmt.Sprint(err) != cmp.Or(want, "<nil>") {
			t.Errorf("a job of %d units: %v, want %q", units, err, want)
		}
	}
	if worked != 1 {
		t.Errorf("%d jobs ran, want one", worked)
	}
	readmeDenied(r, core.ForLimits(store, []core.Limit{core.PerHour(1).By(keyfuncs.Everyone()).Named("all")}))
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

func TestReadmeBlocksAreCompiled(t *testing.T) {
	t.Parallel()
	texts, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, file := range append(texts, "../README.md") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(content)
	}
	var compiled []string
	for _, pattern := range []string{"*_test.go", "*/main.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			compiled = append(compiled, flat(string(source)))
		}
	}
	blocks := goBlock.FindAllStringSubmatch(text.String(), -1)
	if len(blocks) < 5 {
		t.Fatalf("only %d blocks of Go in the README and docs", len(blocks))
	}
	for _, block := range blocks {
		found := false
		for _, source := range compiled {
			found = found || strings.Contains(source, flat(block[1]))
		}
		if !found {
			t.Errorf("this block of the README or docs is in no example:\n%s", block[1])
		}
	}
}

// flat returns source without indentation and blank lines.
func flat(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
