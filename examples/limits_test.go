package examples_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

// The code of docs about limits and handlers: see readme_test.go.

func priorities(signedIn keyfuncs.Condition) core.Limit {
	service := core.PerSecond(1000).By(keyfuncs.Everyone()).Named("service").Classes(
		core.Class{Name: "checkout", When: keyfuncs.Routes("POST /checkout"), Keep: 0.2},
		core.Class{Name: "customers", When: signedIn, Keep: 0.3},
		core.Class{Name: "crawlers"},
	)
	return service
}

var _ = priorities

func dividing() []core.Limit {
	capacity := core.PerSecond(5000).By(keyfuncs.Everyone()).Named("capacity").Fair(core.Shares{
		By: keyfuncs.Tenant("tenant"),
	})
	reports := core.Concurrent(20).By(keyfuncs.Everyone()).Named("reports").Wait(5 * time.Second).Fair(core.Shares{
		By:     keyfuncs.User("account"),
		Within: keyfuncs.User("user"),
	})
	return []core.Limit{capacity, reports}
}

// The limits of docs that clients divide work together.
func TestDividedLimitsOfDocs(t *testing.T) {
	t.Parallel()
	core.ForLimits(core.NewMemory(), dividing())
}

func docsBypass(store core.Store, limits []core.Limit, monitoring, partner string) (*core.Limiter, error) {
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

func docsOutage(store *redisstore.Store, secondRedis *redis.Client, metrics func(kind, class, node string)) (*core.Limiter, error) {
	store.OnEvent(func(e core.Event) {
		metrics(string(e.Kind), string(e.Class), e.Node)
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

func docsPlan() core.Limit {
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

func docsEstimate(api *gin.RouterGroup, store core.Store, ask func(c *gin.Context, most int64) answer) {
	tokens := core.PerMinute(10_000).By(keyfuncs.User("customer")).Named("tokens").
		Estimate(500).RefundOn(core.ServerErrors)

	api.POST("/chat", ginlimit.Limit(store, tokens), func(c *gin.Context) {
		answer := ask(c, 500)                              // tokens at most
		_ = core.Spend(c.Request.Context(), answer.Tokens) // in place of the estimate, up or down
		c.String(http.StatusOK, answer.Text)
	})
}

func docsDebt() core.Limit {
	output := core.PerMinute(10_000).By(keyfuncs.User("customer")).Named("output").
		Estimate(500).Debt(50_000)
	return output
}

func docsBeyond(berlin *time.Location) []core.Limit {
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

func docsAdvice(store core.Store, limits []core.Limit) *core.Limiter {
	limiter := core.Must(core.New(core.Config{
		Store:   store,
		Limits:  limits,
		Silence: []core.Advice{"WL001"},
	}))
	return limiter
}

// denials logs requests that are denied.
type denials struct {
	core.NopObserver
	seed maphash.Seed
}

func (l denials) Decided(ctx context.Context, o *core.Observation) {
	if o.Decision.Allowed {
		return
	}
	client := ""
	if i, ok := o.Binding(); ok { // keys are addresses and users: log a hash of them, or nothing
		client = strconv.FormatUint(maphash.Bytes(l.seed, o.Key(i)), 36)
	}
	slog.WarnContext(ctx, "denied", "limit", o.Limit(), "client", client, "decision", o)
}

func docsObserver(store core.Store) core.Config {
	config := core.Config{Store: store, Observe: denials{seed: maphash.MakeSeed()}}
	return config
}

func docsExport(api *gin.RouterGroup, limits *ginlimit.Settings, export gin.HandlerFunc) {
	api.POST("/export", limits.Limit(
		core.PerMinute(100).By(keyfuncs.User("customer")).Cost(10).Named("rate"),
		core.Concurrent(2).By(keyfuncs.User("customer")).Named("exports"),
	), export)
}

func docsHandler(r *gin.Engine) {
	r.GET("/quota", func(c *gin.Context) {
		d, _ := ginlimit.FromContext(c)
		limit, _ := d.Binding()
		c.JSON(http.StatusOK, gin.H{"limit": limit.Rule.Name, "remaining": limit.Remaining})
	})
}

func docsGuard(r *gin.Engine, limits *ginlimit.Settings) {
	perRecipient := limits.Guard(core.PerHour(20).Named("recipient")) // limits := ginlimit.With(…)
	r.POST("/messages", func(c *gin.Context) {
		var message struct{ To string }
		if c.BindJSON(&message) != nil {
			return
		}
		if !perRecipient.Allow(c, keyfuncs.Encode("to", message.To), 1) {
			return
		}
		c.String(http.StatusOK, "sent\n")
	})
}

func docsBatches(ctx context.Context, limiter *core.Limiter, jobs []string, run func([]string)) error {
	request := keyfuncs.Values{"tenant": "acme", "plan": "pro"}.WithContext(ctx)
	for len(jobs) > 0 {
		granted, d := limiter.AllowAtMost(request, int64(len(jobs)))
		run(jobs[:granted])
		jobs = jobs[granted:]
		if len(jobs) == 0 {
			break
		}
		if d.RetryAfter == 0 { // waiting can't help
			return fmt.Errorf("limited: %v", d.Reason)
		}
		select {
		case <-time.After(d.RetryAfter):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func docsTypedKey(ctx context.Context, limiter *core.Limiter) core.Decision {
	ctx = context.WithValue(ctx, userKey{}, "42") // as the middleware does, for keyfuncs.User(userKey{})
	d := limiter.Allow(keyfuncs.Values{"plan": "premium"}.WithContext(ctx))
	return d
}

func docsFlag(flags *flag.FlagSet) *core.Limit {
	limit := core.PerMinute(100).By(keyfuncs.ClientIP()).Named("api")
	flags.TextVar(&limit, "limit", limit, "requests per client")
	return &limit
}

func docsJob(ctx context.Context, store core.Store, units int64, work func(context.Context) error) error {
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

func docsDenied(r *gin.Engine, limiter *core.Limiter) {
	r.Use(ginlimit.New(limiter, ginlimit.Config{
		Skip: func(c *gin.Context) bool { return c.FullPath() == "/healthz" },
		Denied: func(c *gin.Context, d core.Decision) {
			c.JSON(d.Status(), gin.H{"error": "slow down", "retry_after": d.RetryAfterSeconds()})
		},
	}))
}

func docsNoContext(r *gin.Engine, store core.Store) {
	limits := ginlimit.With(core.Config{Store: store}, ginlimit.Config{NoContext: true})
	r.GET("/unread", limits.Limit(core.PerMinute(5).By(keyfuncs.ClientIP()).Named("unread")), func(c *gin.Context) {
		_, found := ginlimit.FromContext(c)
		c.JSON(http.StatusOK, found)
	})
}

func docsText() (core.Limit, error) {
	limit, err := core.ParseLimit(cmp.Or(os.Getenv("CLIENT_LIMIT"), "100/minute burst 20"))
	if err != nil {
		return core.Limit{}, fmt.Errorf("CLIENT_LIMIT: %w", err)
	}
	return limit.By(keyfuncs.ClientIP()).Named("client"), nil
}

// The code of docs works on one store, as it stands there.
func TestDocumentedLimitsWork(t *testing.T) {
	t.Parallel()
	r, store := gin.New(), core.NewMemory()
	docsHandler(r)
	docsGuard(r, ginlimit.With(core.Config{Store: store}))
	docsNoContext(r, store)
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/unread", nil))
	if w.Body.String() != "false" || w.Header().Get("RateLimit") == "" {
		t.Errorf("without a context: found %s, headers %v", w.Body, w.Header())
	}
	if limit, err := docsText(); err != nil || fmt.Sprint(limit) != fmt.Sprint(core.PerMinute(100).Burst(20)) {
		t.Errorf("%v, %v", limit, err)
	}
	docsEstimate(r.Group("/"), store, func(*gin.Context, int64) answer { return answer{"yes", 1} })
	core.ForLimits(core.NewMemory(), docsBeyond(time.UTC))
	if _, err := docsBypass(store, readmeKeys(), "monitoring-0123456789", "partner-0123456789"); err != nil {
		t.Error(err)
	}
	second := redis.NewClient(&redis.Options{Addr: "localhost:6380"}) // talks to no server yet
	if _, err := docsOutage(redisstore.New(second), second, func(_, _, _ string) {}); err != nil {
		t.Error(err)
	}
	docsAdvice(store, []core.Limit{docsPlan()})
	docsAdvice(store, []core.Limit{docsDebt()})
	docsDenied(r, core.ForLimits(store, []core.Limit{core.PerHour(1).By(keyfuncs.Everyone()).Named("all")}))
}

// The loop of batches ends: with all jobs done, where waiting can't help, and with its context.
func TestDocumentedBatchesEnd(t *testing.T) {
	t.Parallel()
	limit := core.PerMinute(1).By(keyfuncs.Tenant("tenant")).Named("jobs").Tiers(func(r keyfuncs.Request) core.Limit {
		if r.Value("plan") == "pro" {
			return core.PerMinute(2)
		}
		return core.Limit{}
	})
	for name, tt := range map[string]struct {
		limit core.Limit
		after time.Duration // until the context ends
		want  string
		runs  string
		took  time.Duration
	}{
		"all":            {limit, time.Hour, "<nil>", "[2 1 1 1]", 90 * time.Second},
		"a context":      {limit, 45 * time.Second, "context deadline exceeded", "[2 1]", 45 * time.Second},
		"a missing user": {core.PerMinute(2).By(keyfuncs.User("user")).Named("user").OnMissingKey(core.DenyRequest), time.Hour, "limited: missing key", "[0]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.after)
				defer cancel()
				var runs []int
				began := time.Now()
				err := docsBatches(ctx, core.ForLimits(core.NewMemory(), []core.Limit{tt.limit}), make([]string, 5), func(jobs []string) { runs = append(runs, len(jobs)) })
				if fmt.Sprint(err) != tt.want || fmt.Sprint(runs) != tt.runs || time.Since(began) != tt.took {
					t.Errorf("%v after batches of %v in %v, want %s after %s in %v", err, runs, time.Since(began), tt.want, tt.runs, tt.took)
				}
			})
		})
	}
}

// A value under a key of its own type comes from the context, the others from the values.
func TestDocumentedTypedKey(t *testing.T) {
	t.Parallel()
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerMinute(1).By(keyfuncs.User(userKey{}), keyfuncs.Tenant("plan")).OnMissingKey(core.DenyRequest)})
	if d := docsTypedKey(t.Context(), limiter); !d.Allowed {
		t.Error(d.Reason)
	}
	if d := limiter.AllowKey(t.Context(), keyfuncs.EncodeJoin("user:42", "tenant:premium"), 1); d.Allowed {
		t.Error("another bucket")
	}
}

// A flag replaces a limit's numbers.
func TestDocumentedFlags(t *testing.T) {
	t.Parallel()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	parsed := docsFlag(flags)
	if err := flags.Parse([]string{"-limit", "5/hour"}); err != nil {
		t.Fatal(err)
	}
	if rule, err := parsed.Rule(); err != nil || rule.Name != "api" || rule.Quota != 5 {
		t.Errorf("%v, %v", rule, err)
	}
}

// The loop of a job ends, whatever the job costs.
func TestDocumentedJobEnds(t *testing.T) {
	t.Parallel()
	worked := 0
	work := func(context.Context) error { worked++; return nil }
	for units, want := range map[int64]string{1: "", 101: "limited: never fits"} {
		if err := docsJob(t.Context(), core.NewMemory(), units, work); fmt.Sprint(err) != cmp.Or(want, "<nil>") {
			t.Errorf("a job of %d units: %v, want %q", units, err, want)
		}
	}
	if worked != 1 {
		t.Errorf("%d jobs ran, want one", worked)
	}
}

// An export that finds no slot does not pay the rate, since one call decides both.
func TestDocumentedExport(t *testing.T) {
	t.Parallel()
	r, entered, leave := gin.New(), make(chan bool), make(chan bool)
	r.Use(func(c *gin.Context) { c.Set("customer", "acme") })
	config := docsObserver(weblimittest.New(t)) // whose clock stands still, so that no units come back
	docsExport(r.Group("/"), ginlimit.With(config), func(*gin.Context) { entered <- true; <-leave })
	ask := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/export", http.NoBody))
		return w
	}
	done := make(chan *httptest.ResponseRecorder)
	for range 2 {
		go func() { done <- ask() }()
		<-entered
	}
	denied := ask()
	if got := denied.Header().Get("Ratelimit"); denied.Code != http.StatusTooManyRequests || !strings.Contains(got, `"rate";r=80;`) {
		t.Errorf("without a free slot: %d, %s, want 429 and the cost of two exports charged", denied.Code, got)
	}
	for range 2 {
		leave <- true
		if w := <-done; w.Code != http.StatusOK {
			t.Errorf("an export: %d", w.Code)
		}
	}
}

// The headers of a burst that is not the quota, as docs/use/headers.md lists them.
func TestDocumentedBursts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"100/minute":         `"default";q=100;w=60, 100`,
		"60/minute burst 20": `"default";q=20;w=20, 20`,
		"60/s burst 120":     `"default";q=120;w=2, 120`,
		"1000/day fixed":     `"default";q=1000;w=86400, 1000`,
	} {
		limiter := core.Must(core.New(core.Config{
			Store: core.NewMemory(), Headers: core.Draft11 | core.XRateLimit,
			Limits: []core.Limit{core.MustParseLimit(text).By(keyfuncs.Everyone())},
		}))
		d, h := limiter.AllowKey(t.Context(), "k", 1), http.Header{}
		d.SetHeaders(h)
		check.Equal(t, text, h.Get("Ratelimit-Policy")+", "+h.Get("X-Ratelimit-Limit"), want)
	}
}

func docsBudgets(agreed keyfuncs.Condition) []core.Limit {
	tenant := keyfuncs.Tenant("tenant")
	plan := core.PerMonth(100_000, time.UTC).By(tenant).Named("plan")
	credits := core.PerMonth(20_000, time.UTC).By(tenant).Named("credits")
	overage := core.PerMonth(1_000_000, time.UTC).By(tenant).Named("overage").When(agreed)
	limits := []core.Limit{
		core.PerSecond(50).By(tenant).Named("rate"),
		core.Concurrent(20).By(tenant).Named("running"),
		core.First(plan, credits, overage),
	}
	return limits
}

// The limits of docs/bill/budgets.md: the plan pays, and those who have not agreed to overage have two budgets.
func TestBudgets(t *testing.T) {
	t.Parallel()
	agreed := keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("overage") == "yes" })
	limiter := core.ForLimits(core.NewMemory(), docsBudgets(agreed))
	for overage, alternatives := range map[string]int{"yes": 3, "no": 2} {
		d := limiter.Allow(keyfuncs.Values{"tenant": "acme", "overage": overage}.WithContext(t.Context()))
		check.Slices(t, "paid by", d.PaidBy(), []string{"rate", "running", "plan"})
		check.Equal(t, "limits asked", len(d.Results()), 2+alternatives)
		d.Settle(core.Outcome{})
	}
}
