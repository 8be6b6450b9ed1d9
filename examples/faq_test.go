package examples_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/weblimittest"
)

// The code of docs/use/faq.md: see readme_test.go.

func faqProxy() core.Limit {
	perClient := core.PerMinute(100).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8"))).Named("client")
	return perClient
}

func faqTwo() []core.Limit {
	inAnyWindow := core.Per(2, 10*time.Minute).SlidingLog().By(keyfuncs.ClientIP()).Named("exact")
	evenly := core.Per(2, 10*time.Minute).Burst(1).By(keyfuncs.ClientIP()).Named("evenly")
	return []core.Limit{inAnyWindow, evenly}
}

func faqTwoWindows(store core.Store) gin.HandlerFunc {
	middleware := ginlimit.Limit(store,
		core.PerSecond(10).By(keyfuncs.User("user")).Named("second"),
		core.PerDay(1000).FixedWindow().By(keyfuncs.User("user")).Named("day"))
	return middleware
}

func faqRoutes(r *gin.Engine, store core.Store, search, login gin.HandlerFunc) {
	limits := ginlimit.With(core.Config{Store: store})
	r.Use(limits.Limit(core.PerMinute(300).By(keyfuncs.ClientIP()).Named("all")))
	r.GET("/search", limits.Limit(core.PerMinute(30).By(keyfuncs.ClientIP()).Named("search")), search)
	r.POST("/login", limits.Limit(core.PerMinute(5).By(keyfuncs.ClientIP()).Named("login")), login)
}

func faqJWT(r *gin.Engine, store core.Store, verify func(*http.Request) (subject string, err error)) {
	authenticate := func(c *gin.Context) {
		subject, err := verify(c.Request)
		if err != nil {
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		c.Set("user", subject)
	}
	r.Use(authenticate, ginlimit.Limit(store, core.PerMinute(60).By(keyfuncs.User("user")).Named("user")))
}

func faqFailedLogins() core.Limit {
	failed := core.Per(5, 15*time.Minute).SlidingLog().By(keyfuncs.ClientIP()).Named("login").
		RefundOn(core.Successes)
	return failed
}

func faqFailedPerAccount(r *gin.Engine, limits *ginlimit.Settings, failed core.Limit, check func(name, password string) bool) {
	perAccount := limits.Limiter(core.Per(10, 15*time.Minute).SlidingLog().By(keyfuncs.User("account")).Named("account").
		RefundOn(core.Successes))
	r.POST("/sessions", limits.Limit(failed), func(c *gin.Context) {
		var form struct{ Name, Password string }
		if c.BindJSON(&form) != nil {
			return
		}
		account := strings.ToLower(form.Name) // as you look accounts up: otherwise each spelling has its own attempts
		d := perAccount.AllowKey(c.Request.Context(), keyfuncs.Encode("account", account), 1)
		if !d.Allowed {
			d.SetHeaders(c.Writer.Header())
			ginlimit.Deny(c, d)
			return
		}
		if !check(account, form.Password) {
			c.Status(http.StatusUnauthorized)
			return
		}
		d.Settle(core.Outcome{Status: http.StatusOK}) // gives the attempt back
		c.Status(http.StatusNoContent)
	})
}

func faqReset(ctx context.Context, limits *ginlimit.Settings, login core.Limit, address string) error {
	limiter := limits.Limiter(login) // once, at start-up; it counts together with limits.Limit(login)
	return limiter.Reset(ctx, keyfuncs.Encode("ip", address))
}

func faqResetRoute(ctx context.Context, limits *ginlimit.Settings, user string) error {
	perRoute := core.PerMinute(60).By(keyfuncs.User("user"), keyfuncs.Route()).Named("route")
	key := keyfuncs.EncodeJoin(keyfuncs.Encode("user", user), keyfuncs.Encode("route", "/orders/:id"))
	return limits.Limiter(perRoute).Reset(ctx, key)
}

func faqRemaining(r *gin.Engine, limits *ginlimit.Settings, daily core.Limit) {
	limiter := limits.Limiter(daily)
	r.GET("/quota", func(c *gin.Context) {
		d, err := limiter.Peek(c.Request.Context(), keyfuncs.Encode("user", c.GetString("user")), 1) // charges nothing
		if err != nil {
			c.AbortWithStatus(http.StatusServiceUnavailable)
			return
		}
		limit, _ := d.Binding()
		c.JSON(http.StatusOK, gin.H{"remaining": limit.Remaining, "seconds": limit.ResetAfter.Seconds()})
	})
}

func faqSocket(ctx context.Context, store core.Store, user string, read func() (string, error), handle func(string)) error {
	limiter := core.Must(core.New(core.Config{
		Store:  store,
		Limits: []core.Limit{core.PerSecond(10).Burst(50).By(keyfuncs.User("user")).Named("messages")},
	}))
	for {
		message, err := read()
		if err != nil {
			return err
		}
		if d := limiter.AllowKey(ctx, keyfuncs.Encode("user", user), 1); !d.Allowed {
			return fmt.Errorf("too many messages: %v", d.Reason)
		}
		handle(message)
	}
}

func faqSockets() core.Limit {
	connections := core.Concurrent(5).By(keyfuncs.User("user")).Named("connections")
	return connections
}

func faqOutgoing(client *http.Client, store core.Store) {
	limiter := core.Must(core.New(core.Config{
		Store:  store,
		Limits: []core.Limit{core.PerSecond(5).By(keyfuncs.Everyone()).Wait(10 * time.Second).Named("partner-api")},
	}))
	client.Transport = limited{limiter, http.DefaultTransport}
}

type limited struct {
	limiter *core.Limiter
	next    http.RoundTripper
}

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if d := l.limiter.AllowKey(r.Context(), r.URL.Host, 1); !d.Allowed {
		return nil, fmt.Errorf("limited: %v", d.Reason)
	}
	return l.next.RoundTrip(r)
}

func faqBrowser(w http.ResponseWriter) {
	for _, name := range core.ExposeHeaders() {
		w.Header().Add("Access-Control-Expose-Headers", name)
	}
}

// The code of the FAQ does what the answers say.
func TestFAQCodeRuns(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	limits := ginlimit.With(core.Config{Store: store})
	none := func(*gin.Context) {}

	faqRoutes(gin.New(), core.NewMemory(), none, none)
	faqTwoWindows(store)
	core.ForLimits(core.NewMemory(), append(faqTwo(), faqProxy(), faqSockets()))

	r := gin.New()
	faqJWT(r, store, func(r *http.Request) (string, error) { return r.Header.Get("X-Subject"), nil })
	daily := core.PerDay(3).FixedWindow().By(keyfuncs.User("user")).Named("daily")
	r.GET("/", limits.Limit(daily), none)
	faqRemaining(r, limits, daily)
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		w, request := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
		request.Header.Set("X-Subject", "alice")
		r.ServeHTTP(w, request)
		return w
	}
	ask(http.MethodGet, "/", "")
	if w := ask(http.MethodGet, "/quota", ""); !strings.Contains(w.Body.String(), `"remaining":2`) {
		t.Errorf("the quota after one of three requests: %s", w.Body)
	}
	faqFailedPerAccount(r, ginlimit.With(core.Config{Store: core.NewMemory()}), core.PerMinute(100).By(keyfuncs.ClientIP()).Named("login"),
		func(_, password string) bool { return password == "right" })
	for n := range 22 { // every other one is right, and the first ten that are wrong are tried
		password := []string{"right", "wrong"}[n%2]
		want := []int{http.StatusNoContent, http.StatusUnauthorized}[n%2]
		if n >= 20 {
			want = http.StatusTooManyRequests
		}
		if w := ask(http.MethodPost, "/sessions", `{"name":"Dave","password":"`+password+`"}`); w.Code != want {
			t.Errorf("attempt %d with a %s password: %d, want %d", n+1, password, w.Code, want)
		}
	}

	login := faqFailedLogins()
	peer := core.ForLimits(store, []core.Limit{login})
	for range 6 {
		peer.AllowKey(t.Context(), "ip:192.0.2.1", 1)
	}
	if err := faqReset(t.Context(), limits, login, "192.0.2.1"); err != nil {
		t.Error(err)
	}
	if d := peer.AllowKey(t.Context(), "ip:192.0.2.1", 1); !d.Allowed {
		t.Errorf("after the reset: %v", d.Reason)
	}

	messages := 0
	err := faqSocket(t.Context(), store, "carol", func() (string, error) { return "hi", nil }, func(string) { messages++ })
	if err == nil || messages < 50 {
		t.Errorf("%d messages, then %v", messages, err)
	}

	client := &http.Client{}
	faqOutgoing(client, store)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { faqBrowser(w) }))
	defer server.Close()
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if names := response.Header.Values("Access-Control-Expose-Headers"); len(names) != len(core.ExposeHeaders()) {
		t.Errorf("exposed: %v", names)
	}
}

// A reset takes the joined key, and the user's other routes keep what they have used.
func TestFAQResetOfARoute(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	perRoute := core.PerMinute(60).By(keyfuncs.User("user"), keyfuncs.Route()).Named("route")
	limiter := core.ForLimits(store, []core.Limit{perRoute})
	ask := func(route string) core.Decision {
		return limiter.Allow(keyfuncs.Values{"user": "alice", "route": route})
	}
	for range 60 {
		ask("/orders/:id")
		ask("/items/:id")
	}
	if err := faqResetRoute(t.Context(), ginlimit.With(core.Config{Store: store}), "alice"); err != nil {
		t.Error(err)
	}
	if a, b := ask("/orders/:id"), ask("/items/:id"); !a.Allowed || b.Allowed {
		t.Errorf("after the reset of one route: %v, and the other %v", a.Reason, b.Reason)
	}
}

// newHandler is the application of the question about tests.
func newHandler(store core.Store) http.Handler {
	limit := nethttp.Limit(store, core.PerMinute(2).By(keyfuncs.ClientIP()))
	return limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func TestLimit(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t) // a store for this test alone, whose clock stands still
	handler := newHandler(store)
	get := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		return w
	}
	weblimittest.Allowed(t, get())
	weblimittest.Allowed(t, get())
	denied := get()
	weblimittest.Denied(t, denied)
	store.Advance(weblimittest.RetryAfter(t, denied))
	weblimittest.Allowed(t, get())
}
