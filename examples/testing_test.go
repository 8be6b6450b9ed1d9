package examples_test

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/chilimit"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/weblimittest"
)

// The code of docs/use/testing.md: see readme_test.go.

// newApp is the application under test. The store is a parameter, so that each test has
// its own.
func newApp(store core.Store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) {})
	login := nethttp.Limit(store, core.PerMinute(5).By(keyfuncs.ClientIP()).Named("login").
		Penalty(core.Block{After: 10, Within: time.Hour, For: time.Hour}))
	mux.Handle("POST /login", login(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	return nethttp.Limit(store, core.PerMinute(60).By(keyfuncs.ClientIP()).Named("client"))(mux)
}

// send sends a request of one client.
func send(app http.Handler, method, path, client string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.RemoteAddr = client + ":1234"
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func TestTheSixthLoginOfAMinuteIsDenied(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	app := newApp(store)
	for range 5 {
		weblimittest.Allowed(t, send(app, "POST", "/login", "192.0.2.1"))
	}
	denied := send(app, "POST", "/login", "192.0.2.1")
	weblimittest.Denied(t, denied, "login")
	weblimittest.Allowed(t, send(app, "POST", "/login", "192.0.2.2")) // another client
	weblimittest.Allowed(t, send(app, "GET", "/", "192.0.2.1"))       // another route

	store.Advance(weblimittest.RetryAfter(t, denied)) // 12 seconds, which take no time
	weblimittest.Allowed(t, send(app, "POST", "/login", "192.0.2.1"))
}

func TestClientsAtTheirLimits(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	app := newApp(store)

	store.Exhaust("client", keyfuncs.Encode("ip", "192.0.2.1")) // one client
	weblimittest.Denied(t, send(app, "GET", "/", "192.0.2.1"), "client")
	weblimittest.Allowed(t, send(app, "GET", "/", "192.0.2.2"))

	store.Exhaust("login") // every client
	weblimittest.Denied(t, send(app, "POST", "/login", "192.0.2.2"), "login")

	store.BlockFor("login", time.Hour) // every client
	blocked := send(app, "POST", "/login", "192.0.2.3")
	weblimittest.Denied(t, blocked, "login")
	if wait := weblimittest.RetryAfter(t, blocked); wait != time.Hour {
		t.Errorf("a client that is blocked for an hour waits %v", wait)
	}
}

func TestWhatClientsSee(t *testing.T) {
	t.Parallel()
	app := newApp(weblimittest.New(t))
	response := send(app, "POST", "/login", "192.0.2.1")
	weblimittest.Policies(t, response, "client", "login")
	weblimittest.Remaining(t, response, "login", 4)
	weblimittest.Remaining(t, response, "client", 59)
}

func TestWhatALimiterDecides(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	limiter := core.ForLimits(store, []core.Limit{core.PerHour(2).By(keyfuncs.User("user")).Named("mails")})
	store.Exhaust("mails", "user:alice")

	alice, bob := keyfuncs.Values{"user": "alice"}, keyfuncs.Values{"user": "bob"}
	weblimittest.Denied(t, limiter.Allow(alice), "mails")
	weblimittest.Remaining(t, limiter.Allow(bob), "mails", 1)
	if d := limiter.Allow(bob); d.Reason != core.ReasonWithinLimit {
		t.Errorf("allowed for another reason: %v", d.Reason)
	}
}

func TestEachFramework(t *testing.T) {
	t.Parallel()
	limit := core.PerHour(2).By(keyfuncs.ClientIP()).Named("client")
	store := weblimittest.New(t)

	// net/http, chi, Gin and Echo are handlers.
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) {})

	c := chi.NewRouter()
	c.Use(chilimit.Limit(store, limit))
	c.Get("/", func(http.ResponseWriter, *http.Request) {})

	g := gin.New()
	g.Use(ginlimit.Limit(store, limit))
	g.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })

	e := echo.New()
	e.Use(echolimit.Limit(store, limit))
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })

	for client, app := range map[string]http.Handler{
		"192.0.2.1": nethttp.Limit(store, limit)(mux), "192.0.2.2": c, "192.0.2.3": g, "192.0.2.4": e,
	} {
		weblimittest.Remaining(t, send(app, "GET", "/", client), "client", 1)
	}

	// Fiber has a method of its own. The address of its clients is always 0.0.0.0.
	f := fiber.New()
	f.Use(fiberlimit.Limit(store, limit))
	f.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
	response, err := f.Test(httptest.NewRequest("GET", "/", http.NoBody), -1)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	weblimittest.Remaining(t, response, "client", 1)
}

func TestARequestWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := weblimittest.New(t) // made in the bubble, so that it follows the bubble's clock
		paced := nethttp.Limit(store, core.PerSecond(1).LeakyBucket(10*time.Second).By(keyfuncs.ClientIP()).Named("paced"))
		app := paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		began := time.Now()
		for range 3 {
			weblimittest.Allowed(t, send(app, "GET", "/", "192.0.2.1"))
		}
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("three requests at one a second took %v", waited)
		}
	})
}

func TestAFailedCallIsRefunded(t *testing.T) {
	t.Parallel()
	limit := core.PerHour(1).By(keyfuncs.ClientIP()).Named("calls").RefundOn(core.ServerErrors)
	limiter := core.ForLimits(weblimittest.New(t), []core.Limit{limit})
	app := nethttp.New(limiter)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
	}))
	for range 3 {
		weblimittest.Allowed(t, send(app, "GET", "/", "192.0.2.1"))
		if err := limiter.Drain(t.Context()); err != nil { // until the refund, which is made in the background, is done
			t.Fatal(err)
		}
	}
}

// newShop is an application with a switch for tests.
func newShop(store core.Store, change func(core.Limit) core.Limit) http.Handler {
	perClient := core.PerMinute(60).By(keyfuncs.ClientIP()).Named("client")
	return nethttp.Limit(store, change(perClient))(http.NotFoundHandler())
}

func TestTheShopWithoutItsLimits(t *testing.T) {
	t.Parallel()
	raised := newShop(weblimittest.New(t), func(l core.Limit) core.Limit { return l.Burst(1_000_000) })
	shadowed := newShop(weblimittest.New(t), core.Limit.Shadow)
	for range 200 {
		a, b := send(raised, "GET", "/", "192.0.2.1"), send(shadowed, "GET", "/", "192.0.2.1")
		weblimittest.Allowed(t, a)
		weblimittest.Policies(t, a, "client")
		weblimittest.Allowed(t, b)
		weblimittest.Policies(t, b) // none
	}
}

func TestAnOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action core.OutageAction
		want   []int
	}{
		{core.Local, []int{200, 200, 429}}, // a bucket in this process
		{core.Allow, []int{200, 200, 200}},
		{core.Deny, []int{503, 503, 503}},
	} {
		store := weblimittest.New(t)
		limit := core.PerHour(2).By(keyfuncs.ClientIP()).Named("client").OnOutage(tt.action)
		app := nethttp.Limit(store, limit)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		store.Fail()
		for i, want := range tt.want {
			if w := send(app, "GET", "/", "192.0.2.1"); w.Code != want {
				t.Errorf("action %v, request %d: %d, want %d", tt.action, i+1, w.Code, want)
			}
		}
		store.Recover()
		weblimittest.Allowed(t, send(app, "GET", "/", "192.0.2.2"))
	}
}

func TestASlowStoreHoldsARequestForTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := weblimittest.New(t)
		limiter := core.Must(core.New(core.Config{
			Store:   store,
			Limits:  []core.Limit{core.PerHour(2).By(keyfuncs.Everyone()).Named("all").OnOutage(core.Allow)},
			Timeout: 50 * time.Millisecond,
		}))
		store.Hang()
		start := time.Now()
		d := limiter.AllowKey(t.Context(), "k", 1)
		if !d.Allowed || d.Reason != core.ReasonOutageAllowed || time.Since(start) != 50*time.Millisecond {
			t.Errorf("%v after %v", d.Reason, time.Since(start))
		}
	})
}

// startRedis starts a redis-server for one test, on a unix socket.
func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	program, err := exec.LookPath(cmp.Or(os.Getenv("REDIS_SERVER"), "redis-server"))
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for range 6000 {
		if client.Ping(t.Context()).Err() == nil {
			return client
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("redis-server does not answer")
	return nil
}

func TestOnRedis(t *testing.T) {
	t.Parallel()
	store := redisstore.New(startRedis(t), redisstore.Config{Prefix: t.Name() + ":"})
	limiter := core.Must(core.New(core.Config{
		Store:   store,
		Limits:  []core.Limit{core.PerHour(2).By(keyfuncs.Everyone()).Named("all").OnOutage(core.Deny)},
		Timeout: 10 * time.Second, // a machine that runs tests may be slow
	}))
	for i, want := range []bool{true, true, false} {
		if d := limiter.AllowKey(t.Context(), "k", 1); d.Allowed != want || d.Err != nil {
			t.Errorf("request %d: %v, %v", i+1, d.Reason, d.Err)
		}
	}
}
