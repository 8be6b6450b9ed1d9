package fiberlimit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// following serves an app whose limiter comes first, and returns its outcomes.
func following(t *testing.T, config fiber.Config, handlers ...fiber.Handler) (address string, outcomes <-chan core.Outcome) {
	t.Helper()
	seen := make(chan core.Outcome, 9)
	config.DisableStartupMessage = true
	app := fiber.New(config)
	app.Use(fiberlimit.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
		seen <- o
		return false
	})))
	app.All("/", handlers...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = app.Listener(l) }()
	t.Cleanup(func() { _ = app.ShutdownWithTimeout(2 * time.Minute) })
	return l.Addr().String(), seen
}

// Time-out middleware behind the limiter gives the handler a context that ends when
// it returns. Nobody canceled the request for that.
func TestAContextFurtherInIsNotTheRequests(t *testing.T) {
	t.Parallel()
	address, outcomes := following(t, fiber.Config{}, func(c *fiber.Ctx) error {
		ctx, cancel := context.WithCancel(c.UserContext())
		defer cancel()
		c.SetUserContext(ctx)
		return c.Next()
	}, hello)
	res, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if o := <-outcomes; o.Status != 200 || o.Canceled || o.TimedOut {
		t.Errorf("%+v", o)
	}
}

// Trap 49: where the handler reads the body from the client, the client makes it fail
// by breaking off. fasthttp does not tell: c.Body() returns the error as if it were
// the body.
func TestAStreamedBodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	address, outcomes := following(t, fiber.Config{StreamRequestBody: true, BodyLimit: 8}, func(c *fiber.Ctx) error {
		if string(c.Body()) != "all of the body" {
			return c.SendStatus(http.StatusInternalServerError)
		}
		return c.SendString("read")
	})
	for request, canceled := range map[string]bool{
		"Content-Length: 15\r\n\r\nall of":                         true,
		"Content-Length: 15\r\n\r\nall of the body":                false,
		"Transfer-Encoding: chunked\r\n\r\nf\r\nall of":            true,
		"Content-Length: 0\r\n\r\n":                                false, // the handler's own failure
		"Transfer-Encoding: chunked\r\n\r\nf\r\nall of\r\n0\r\n\r": true,
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"+request)
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		_ = conn.Close()
		if o := <-outcomes; o.Canceled != canceled || core.ServerErrors(o) != (!canceled && o.Status >= 500) {
			t.Errorf("%q: %+v, answered %q", request, o, strings.SplitN(string(answer), "\r\n", 2)[0])
		}
	}
}
