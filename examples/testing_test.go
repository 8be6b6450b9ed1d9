package examples_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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
)

// The code of docs/testing.md: see readme_test.go.

// newApp is the application under test. The store is a parameter, so that each test has
// its own.
func newApp(store core.Store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	limit := nethttp.Limit(store, core.PerMinute(5).By(keyfuncs.ClientIP()).Named("client"))
	return limit(mux)
}

// get sends a request of one client.
func get(app http.Handler, client string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = client + ":1234"
	w := httptest.NewRecorder()
	app.ServeHTTP(w, r)
	return w
}

func TestTheSixthRequestOfAMinuteIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := newApp(core.NewMemory()) // made in the bubble, so that it follows the bubble's clock
		for range 5 {
			if w := get(app, "192.0.2.1"); w.Code != http.StatusOK {
				t.Fatalf("a request within the limit got %d", w.Code)
			}
		}
		w := get(app, "192.0.2.1")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "12" {
			t.Errorf("the sixth got %d and Retry-After %q, want 429 and 12", w.Code, w.Header().Get("Retry-After"))
		}
		if w := get(app, "192.0.2.2"); w.Code != http.StatusOK {
			t.Errorf("another client got %d", w.Code)
		}
		time.Sleep(12 * time.Second) // takes no time
		if w := get(app, "192.0.2.1"); w.Code != http.StatusOK {
			t.Errorf("after Retry-After the client got %d", w.Code)
		}
	})
}

func TestEachFramework(t *testing.T) {
	t.Parallel()
	limit := core.PerHour(2).By(keyfuncs.ClientIP()).Named("client")
	request := func() *http.Request { return httptest.NewRequest("GET", "/", nil) }

	// net/http, chi, Gin and Echo are handlers.
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(http.ResponseWriter, *http.Request) {})

	c := chi.NewRouter()
	c.Use(chilimit.Limit(core.NewMemory(), limit))
	c.Get("/", func(http.ResponseWriter, *http.Request) {})

	g := gin.New()
	g.Use(ginlimit.Limit(core.NewMemory(), limit))
	g.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })

	e := echo.New()
	e.Use(echolimit.Limit(core.NewMemory(), limit))
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })

	for name, app := range map[string]http.Handler{
		"net/http": nethttp.Limit(core.NewMemory(), limit)(mux), "chi": c, "Gin": g, "Echo": e,
	} {
		for _, want := range []int{200, 200, 429} {
			w := httptest.NewRecorder()
			app.ServeHTTP(w, request())
			if w.Code != want {
				t.Errorf("%s answered %d, want %d", name, w.Code, want)
			}
		}
	}

	// Fiber has a method of its own. The address of its clients is always 0.0.0.0.
	f := fiber.New()
	f.Use(fiberlimit.Limit(core.NewMemory(), limit))
	f.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
	for _, want := range []int{200, 200, 429} {
		response, err := f.Test(request(), -1)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != want {
			t.Errorf("Fiber answered %d, want %d", response.StatusCode, want)
		}
	}
}

func TestFiberOverTime(t *testing.T) {
	ask := func(app *fiber.App) int {
		response, err := app.Test(httptest.NewRequest("GET", "/", nil), -1)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	ask(fiber.New()) // starts fasthttp's clock outside of the bubble, which waits for its goroutines to end
	synctest.Test(t, func(t *testing.T) {
		app := fiber.New()
		app.Use(fiberlimit.Limit(core.NewMemory(), core.PerMinute(1).By(keyfuncs.ClientIP()).Named("client")))
		app.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
		first, second := ask(app), ask(app)
		time.Sleep(time.Minute)
		if third := ask(app); first != 200 || second != 429 || third != 200 {
			t.Errorf("got %d, %d and %d, want 200, 429 and 200", first, second, third)
		}
	})
}

func TestHeadersAndDecisions(t *testing.T) {
	t.Parallel()
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(2).By(keyfuncs.ClientIP()).Named("client")})
	var seen core.Decision
	app := nethttp.New(limiter)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen, _ = core.FromContext(r.Context())
	}))

	if header := get(app, "192.0.2.1").Header().Get("RateLimit"); header != `"client";r=1;t=1800` {
		t.Errorf("RateLimit: %s", header)
	}
	if binding, ok := seen.Binding(); !ok || binding.Rule.Name != "client" || binding.Remaining != 1 {
		t.Errorf("the handler saw %+v", binding)
	}

	// What is left, without using any of it; and a fresh start.
	key := keyfuncs.Encode("ip", "192.0.2.1")
	d, err := limiter.Peek(t.Context(), key, 1)
	if err != nil || !d.Allowed || d.Reason != core.ReasonWithinLimit {
		t.Errorf("%v, %v", d.Reason, err)
	}
	if err := limiter.Reset(t.Context(), key); err != nil {
		t.Error(err)
	}
}

// newShop is an application with a switch for tests.
func newShop(store core.Store, change func(core.Limit) core.Limit) http.Handler {
	perClient := core.PerMinute(60).By(keyfuncs.ClientIP()).Named("client")
	return nethttp.Limit(store, change(perClient))(http.NotFoundHandler())
}

func TestTheShopWithoutItsLimits(t *testing.T) {
	t.Parallel()
	raised := newShop(core.NewMemory(), func(l core.Limit) core.Limit { return l.Burst(1_000_000) })
	shadowed := newShop(core.NewMemory(), core.Limit.Shadow)
	for range 200 {
		a, b := get(raised, "192.0.2.1"), get(shadowed, "192.0.2.1")
		if a.Code != http.StatusNotFound || a.Header().Get("RateLimit") == "" {
			t.Fatalf("with a larger burst: %d, %v", a.Code, a.Header())
		}
		if b.Code != http.StatusNotFound || b.Header().Get("RateLimit") != "" {
			t.Fatalf("with a shadow: %d, %v", b.Code, b.Header())
		}
	}
}

// downStore is a store whose server does not answer.
type downStore struct{ core.Store }

func (downStore) Take(context.Context, []core.Check, []core.Result) error {
	return errors.New("connection refused")
}

func TestAnOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy core.Outage
		want   []int
	}{
		{core.Local, []int{200, 200, 429}}, // a bucket in this process
		{core.Allow, []int{200, 200, 200}},
		{core.Deny, []int{503, 503, 503}},
	} {
		limit := core.PerHour(2).By(keyfuncs.ClientIP()).Named("client").OnOutage(tt.policy)
		app := nethttp.Limit(downStore{core.NewMemory()}, limit)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for i, want := range tt.want {
			if w := get(app, "192.0.2.1"); w.Code != want {
				t.Errorf("policy %v, request %d: %d, want %d", tt.policy, i+1, w.Code, want)
			}
		}
	}
}

// stuckStore is a store whose server takes the request and never answers.
type stuckStore struct{ core.Store }

func (stuckStore) Take(ctx context.Context, _ []core.Check, _ []core.Result) error {
	<-ctx.Done() // the limiter's deadline, Config.Timeout
	return ctx.Err()
}

func TestASlowStoreHoldsARequestForTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(core.New(core.Config{
			Store:   stuckStore{core.NewMemory()},
			Limits:  []core.Limit{core.PerHour(2).By(keyfuncs.Everyone()).Named("all").OnOutage(core.Allow)},
			Timeout: 50 * time.Millisecond,
		}))
		start := time.Now()
		d := limiter.AllowKey(t.Context(), "k", 1)
		if !d.Allowed || d.Reason != core.ReasonOutageAllowed || time.Since(start) != 50*time.Millisecond {
			t.Errorf("%v after %v", d.Reason, time.Since(start))
		}
	})
}

func TestAFailedCallIsRefunded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := core.PerHour(1).By(keyfuncs.ClientIP()).Named("calls").RefundOn(core.ServerErrors)
		limiter := core.ForLimits(core.NewMemory(), []core.Limit{limit})
		app := nethttp.New(limiter)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
		}))
		for range 3 {
			if w := get(app, "192.0.2.1"); w.Code != http.StatusBadGateway {
				t.Errorf("got %d, want the handler's 502", w.Code)
			}
			synctest.Wait() // until the refund, which is made in the background, is done
		}
	})
}

// startRedis starts a redis-server for one test, on a unix socket.
func startRedis(t *testing.T) *redis.Client {
	t.Helper()
	program, err := exec.LookPath("redis-server")
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
	for range 500 {
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
