package fiber3limit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
)

func hello(c fiber.Ctx) error { return c.SendString("hello") }

// Fiber 3 runs middleware for requests that it cannot read. They are charged, free their slots, and
// are answered with Fiber's error, even if they are denied.
func TestRequestsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(3).By(keyfuncs.Everyone()).Named("hourly"),
		core.Concurrent(1).By(keyfuncs.Everyone()).Named("slots"),
	})
	app, ran := fiber.New(), 0
	app.Use(fiber3limit.New(limiter))
	app.All("/", func(fiber.Ctx) error { ran++; return nil })
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() { _ = app.ShutdownWithTimeout(2 * time.Minute) })
	for i, want := range []struct {
		request string
		status  int
		hourly  string
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("x", 8000) + "\r\n\r\n", 431, "r=2"},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: x\r\n\r\n", 400, "r=1"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", 400, "r=0"},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "r=0"}, // denied
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 429, "r=0"},
	} {
		conn := must.Get(net.Dial("tcp", l.Addr().String()))(t)
		_, _ = io.WriteString(conn, want.request)
		_ = conn.(*net.TCPConn).CloseWrite()
		reply := bufio.NewReader(conn)
		res := must.Get(http.ReadResponse(reply, nil))(t)
		_ = res.Body.Close()
		_, _ = io.Copy(io.Discard, reply) // until Fiber hangs up: it ends the request after its reply
		_ = conn.Close()
		if got := res.Header.Get("RateLimit"); res.StatusCode != want.status || !strings.Contains(got, `"hourly";`+want.hourly) {
			t.Errorf("request %d: %d, RateLimit %s; want %d, %s", i+1, res.StatusCode, got, want.status, want.hourly)
		}
		must.OK(t, limiter.Drain(t.Context()))
	}
	check.Equal(t, "handlers that ran", ran, 0)
}

// A handler that has timed out still uses c in a goroutine of its own.
func TestTheTimeoutMiddleware(t *testing.T) {
	t.Parallel()
	timedOut, end := make(chan struct{}), make(chan struct{})
	seen := make(chan core.Outcome, 1)
	app := fiber.New()
	app.Use(fiber3limit.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Route()).RefundOn(func(o core.Outcome) bool {
		seen <- o
		return false
	})))
	app.Use("/slow", timeout.New(func(c fiber.Ctx) error {
		<-timedOut // a handler that returned at the deadline could be in time
		defer close(end)
		return c.Next() // changes the route of c, which the limiter must not read by now
	}, timeout.Config{Timeout: 5 * time.Millisecond, OnTimeout: func(fiber.Ctx) error {
		close(timedOut)
		return fiber.ErrRequestTimeout
	}}))
	res := ask(app, "GET", "/slow")
	<-end
	if o := <-seen; !o.TimedOut || o.Status != fiber.StatusRequestTimeout || res.StatusCode != o.Status {
		t.Errorf("%d, %+v", res.StatusCode, o)
	}
}

// A handler inside the time-out middleware may return in the instant of its deadline. The middleware then answers
// that it has timed out, and fasthttp drops the request. It is settled all the same, and once.
func TestTheTimeoutMiddlewareAroundTheLimiter(t *testing.T) {
	t.Parallel()
	unavailable := func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusServiceUnavailable) }
	const inTime, inTheInstant, later = 0, 1, 2
	for name, tt := range map[string]struct {
		returns   int
		onTimeout fiber.Handler
		status    int
		outcome   core.Outcome
	}{
		"in time":                       {inTime, unavailable, 200, core.Outcome{Status: 200}},
		"in the instant":                {inTheInstant, nil, 408, core.Outcome{TimedOut: true, Status: 408}},
		"in the instant, and OnTimeout": {inTheInstant, unavailable, 503, core.Outcome{TimedOut: true, Status: 408}}, // which runs at the same time
		"later":                         {later, nil, 408, core.Outcome{TimedOut: true, Status: 408}},
		"later, and OnTimeout":          {later, unavailable, 503, core.Outcome{TimedOut: true, Status: 503}},
	} {
		deadline, answered := &passing{context.Background(), make(chan struct{})}, make(chan struct{})
		pass := func(now int) {
			if tt.returns == now {
				close(deadline.passed)
				<-answered
			}
		}
		slot := fiber3limit.Limit(core.NewMemory(), core.Concurrent(1).By(keyfuncs.Everyone()))
		seen := make(chan core.Outcome, 2)
		app := fiber.New()
		app.Get("/next", slot, hello)
		app.Use(func(c fiber.Ctx) error {
			c.SetContext(deadline)
			return c.Next()
		})
		app.Use(timeout.New(func(c fiber.Ctx) error {
			err := c.Next()
			pass(inTheInstant) // the limiter has returned
			return err
		}, timeout.Config{Timeout: time.Hour, OnTimeout: tt.onTimeout}))
		app.Use(slot, fiber3limit.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
			seen <- o
			return false
		})))
		app.Get("/", func(fiber.Ctx) error {
			pass(later)
			return nil
		})
		check.Equal(t, name+": status", ask(app, "GET", "/").StatusCode, tt.status)
		close(answered)
		wait.Until(t, name+": the request is settled", func() bool { return len(seen) > 0 })
		o := <-seen
		o.Duration = 0
		check.Equal(t, name+": outcome", o, tt.outcome)
		wait.Until(t, name+": the slot is free", func() bool { return ask(app, "GET", "/next").StatusCode == fiber.StatusOK })
		check.Equal(t, name+": further settlements", len(seen), 0)
	}
}

// passing is a context whose deadline passes when a test says so.
type passing struct {
	context.Context
	passed chan struct{}
}

func (*passing) Deadline() (time.Time, bool) { return time.Now(), true }
func (p *passing) Done() <-chan struct{}     { return p.passed }

func (p *passing) Err() error {
	select {
	case <-p.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Applications may replace routes while they serve. A limiter in Use notices by the first request
// for which it foresaw no route.
func TestRoutesThatAreReplaced(t *testing.T) {
	t.Parallel()
	app, ran := fiber.New(), 0
	app.Use(fiber3limit.Limit(core.NewMemory(), core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /login"))))
	app.Post("/signin", hello)
	ask(app, "POST", "/signin")
	app.RemoveRoute("/signin", fiber.MethodPost)
	app.Post("/login", func(fiber.Ctx) error { ran++; return nil })
	app.RebuildTree()
	for range 20 {
		ask(app, "POST", "/login")
	}
	check.Equal(t, "logins: 5 and the first", ran, 6)
}

// Routes of a domain are routes of all hosts, whose handlers pass on.
func TestRoutesOfADomain(t *testing.T) {
	t.Parallel()
	app, ran := fiber.New(), 0
	app.Use(fiber3limit.Limit(core.NewMemory(), core.PerDay(5).By(keyfuncs.Everyone()).When(keyfuncs.Routes("POST /login"))))
	app.Domain("other.example").All("/*", hello)
	app.Domain("example.com").Post("/login", func(fiber.Ctx) error { ran++; return nil })
	for range 20 {
		ask(app, "POST", "http://example.com/login")
	}
	check.Equal(t, "logins", ran, 5)
}

// customCtx is an application's own context.
type customCtx struct{ fiber.DefaultCtx }

func TestACustomCtx(t *testing.T) {
	t.Parallel()
	app := fiber.NewWithCustomCtx(func(app *fiber.App) fiber.CustomCtx { return &customCtx{*fiber.NewDefaultCtx(app)} })
	app.Use(fiber3limit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Route(), keyfuncs.Header("X-Tenant"))))
	app.Get("/items/:id", func(c fiber.Ctx) error {
		d, ok := fiber3limit.FromContext(c)
		if _, custom := c.(*customCtx); !custom || !ok || !d.Allowed {
			t.Errorf("%T, %v, %v", c, d, ok)
		}
		return nil
	})
	for i, want := range []int{200, 429} {
		r := httptest.NewRequest("GET", fmt.Sprint("/items/", i), nil)
		r.Header.Set("X-Tenant", "a")
		res := must.Get(app.Test(r, fiber.TestConfig{}))(t)
		_ = res.Body.Close()
		check.Equal(t, fmt.Sprint("status of request ", i+1), res.StatusCode, want)
	}
}

// The limiter of Fiber 2 compiles in an application on Fiber 3, since Use takes any value. What
// Fiber says then is what the documentation quotes.
func TestAHandlerOfAnotherVersionPanicsAtStartUp(t *testing.T) {
	t.Parallel()
	type Ctx struct{} // as in Fiber 2
	defer func() {
		if said := fmt.Sprint(recover()); !strings.HasPrefix(said, "use: invalid handler func(*fiber3limit_test.Ctx") {
			t.Errorf("panic %q", said)
		}
	}()
	fiber.New().Use(func(*Ctx) error { return nil })
}

// The search for the route leaves nothing on the request and its response.
func TestTheSearchForARouteLeavesNoTrace(t *testing.T) {
	t.Parallel()
	app := fiber.New()
	app.Use(fiber3limit.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Route())))
	app.Post("/items/:id", hello)
	app.Use(func(c fiber.Ctx) error {
		if d, ok := core.FromContext(c.Context()); !ok || !d.Allowed {
			t.Errorf("in the user context: %v, %v", d, ok)
		}
		return c.SendStatus(fiber.StatusTeapot)
	})
	res := ask(app, "GET", "/items/1")
	if allow := res.Header.Values("Allow"); res.StatusCode != fiber.StatusTeapot || allow != nil {
		t.Errorf("%d, Allow %q", res.StatusCode, allow)
	}
}
