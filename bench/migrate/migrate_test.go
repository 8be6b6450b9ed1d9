package migrate

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/internal/test/check"
)

const (
	client = "192.0.2.1:1234"
	get    = "GET /"
)

// The same requests pass, and the same headers go out.
func TestPairs(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var theirs, ours outcome
			switch p.clock {
			case now:
				synctest.Test(t, func(t *testing.T) { theirs = p.play(t, p.peer(), p.requests) })
			case ticking:
				peer := p.peer()
				synctest.Test(t, func(t *testing.T) { theirs = p.play(t, peer, p.requests) })
			case ownClock:
				theirs = p.play(t, p.peer(), p.requests[:1])
			}
			// Bubbles begin at midnight, so the windows of both begin with the first request.
			synctest.Test(t, func(t *testing.T) { ours = p.play(t, p.ours(), p.requests) })
			p.compare(t, &theirs, &ours)
		})
	}
}

// An outcome is the first response, and the first denial.
type outcome struct{ allowed, denied response }

// play sends the requests and checks which pass.
func (p *pair) play(t *testing.T, s server, requests []step) (o outcome) {
	t.Helper()
	for i, step := range requests {
		time.Sleep(step.pause)
		for n := range step.send {
			r := s(t, get, client, "")
			if passed := r.status == http.StatusOK; passed != (n < step.pass) || !passed && r.status != http.StatusTooManyRequests {
				t.Errorf("step %d, request %d of %d: %d, and %d may pass", i, n+1, step.send, r.status, step.pass)
			}
			switch {
			case i > 0:
			case n == 0:
				o.allowed = r
			case n == step.pass:
				o.denied = r
			}
		}
	}
	return o
}

func (p *pair) compare(t *testing.T, theirs, ours *outcome) {
	t.Helper()
	lacking := strings.Fields(p.lacking)
	for what, r := range map[string]struct {
		common       string
		theirs, ours response
	}{"allows": {p.allowed, theirs.allowed, ours.allowed}, "denies": {p.denied, theirs.denied, ours.denied}} {
		peer := slices.DeleteFunc(limitHeaders(r.theirs), func(name string) bool { return slices.Contains(lacking, name) })
		want := strings.Fields(r.common)
		slices.Sort(want)
		if !slices.Equal(peer, want) {
			t.Errorf("the peer %s with %v, want %v", what, peer, want)
		}
		mine := limitHeaders(r.ours)
		for _, name := range want {
			if !slices.Contains(mine, name) {
				t.Errorf("weblimit %s without %s", what, name)
			}
			if (strings.HasSuffix(name, "-Remaining") || name == "X-Ratelimit-Limit") && r.ours.header.Get(name) != r.theirs.header.Get(name) {
				t.Errorf("weblimit %s with %s: %q, and the peer with %q", what, name, r.ours.header.Get(name), r.theirs.header.Get(name))
			}
		}
		may := slices.Concat(want, strings.Fields(p.more))
		if what == "allows" {
			may = slices.DeleteFunc(may, func(name string) bool { return name == retryAfter })
		}
		if i := slices.IndexFunc(mine, func(name string) bool { return !slices.Contains(may, name) }); i >= 0 {
			t.Errorf("weblimit %s with %s, which the peer does not have", what, mine[i])
		}
	}
	for _, name := range lacking {
		if theirs.allowed.header.Get(name) == "" && theirs.denied.header.Get(name) == "" {
			t.Errorf("the peer does not send %s", name)
		}
	}
	if strings.TrimSpace(theirs.denied.body) != p.body {
		t.Errorf("the peer denies with the body %q, want %q", theirs.denied.body, p.body)
	}
}

var aboutLimits = regexp.MustCompile(`(?i)rate-?limit|retry-after`)

// limitHeaders returns the names of headers about limits.
func limitHeaders(r response) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.header)), func(name string) bool { return !aboutLimits.MatchString(name) })
}

// Whose word a limiter takes for the address of a client, and how many clients a network of
// IPv6 is.
func TestWhoIsOneClient(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			peers := [2]server{p.peer(), p.peer()}
			synctest.Test(t, func(t *testing.T) {
				check.Equal(t, "the peer believes a forged X-Forwarded-For", evades(t, peers[0], forging), p.forged)
				check.Equal(t, "the peer counts each address of an IPv6 network alone", evades(t, peers[1], moving), p.wide)
				if evades(t, p.ours(), forging) || evades(t, p.ours(), moving) {
					t.Error("weblimit takes one client for several")
				}
			})
		})
	}
}

func forging(n int) (from, forwarded string) { return client, fmt.Sprintf("198.51.100.%d", n) }
func moving(n int) (from, forwarded string)  { return fmt.Sprintf("[2001:db8::%x]:1234", n+1), "" }

// tollbooth 7 looks into X-Forwarded-For first unless it is told not to.
func TestTollBooth7BelievesClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if !evades(t, served(tollBoothV7(page)), forging) {
			t.Error("tollbooth 7 does not believe a forged X-Forwarded-For")
		}
	})
}

// Successful logins cost nothing, failed ones count.
func TestOnlyFailedLoginsCount(t *testing.T) {
	t.Parallel()
	for _, setUp := range []func(*fiber.App, fiber.Handler){fiberLogin, fromFiberLogin} {
		var status int
		s := onFiber(func(app *fiber.App) { setUp(app, func(c *fiber.Ctx) error { return c.SendStatus(status) }) })
		synctest.Test(t, func(t *testing.T) {
			for n, step := range []struct{ status, want int }{{200, 200}, {200, 200}, {401, 401}, {200, 200}, {401, 401}, {401, 401}, {200, 429}} {
				status = step.status
				check.Equal(t, fmt.Sprintf("login %d", n+1), s(t, "POST /login", client, "").status, step.want)
				synctest.Wait() // a refund is told in the background
			}
		})
	}
}

// evades reports whether a client passes more often than any limit here allows.
func evades(t *testing.T, s server, as func(n int) (from, forwarded string)) bool {
	t.Helper()
	for n := range 50 {
		from, forwarded := as(n)
		if s(t, get, from, forwarded).status != http.StatusOK {
			return false
		}
	}
	return true
}
