package migrate

import (
	"time"

	"github.com/gin-gonic/gin"
)

// A pair is a limiter, and what its users take of weblimit.
type pair struct {
	name       string
	peer, ours func() server
	requests   []step
	clock      clock

	// Names of headers, with spaces between them.
	allowed string // of the peer when it allows; ours has them, too
	denied  string // and when it denies
	lacking string // of the peer, which ours can't have
	more    string // of ours, which the peer does not have; Retry-After when it denies

	body   string // of the peer when it denies
	forged bool   // the peer believes X-Forwarded-For of anybody
	wide   bool   // the peer gives each IPv6 address a budget of its own
}

// A step is a pause and then some requests, the first of which pass.
type step struct {
	pause      time.Duration
	send, pass int
}

// A clock says how a peer keeps time.
type clock int

const (
	now      clock = iota // by time.Now: the test moves the clock
	ticking               // also, but a goroutine that never ends cleans up
	ownClock              // by other means: the test plays only the first step
)

const (
	xRateLimit       = "X-Ratelimit-Limit X-Ratelimit-Remaining X-Ratelimit-Reset"
	xRateHyphenLimit = "X-Rate-Limit-Limit X-Rate-Limit-Remaining X-Rate-Limit-Reset"
	rateLimit        = "Ratelimit-Limit Ratelimit-Remaining Ratelimit-Reset"
	retryAfter       = "Retry-After"
)

var pairs = []pair{
	{
		name: "ulule/limiter", clock: ticking,
		peer:     func() server { return onGin(func(r *gin.Engine) { must(0, ululeGin(r)) }) },
		ours:     func() server { return onGin(fromUluleGin) },
		requests: []step{{0, 13, 10}, {50 * time.Second, 2, 0}, {11 * time.Second, 11, 10}},
		allowed:  xRateLimit, denied: xRateLimit, more: retryAfter,
		body: "Limit exceeded", forged: true, wide: true,
	},
	{
		name: "Fiber 2, fixed window", clock: ownClock,
		peer:     func() server { return onFiber(fiberFixed) },
		ours:     func() server { return onFiber(fromFiberFixed) },
		requests: []step{{0, 13, 10}},
		allowed:  xRateLimit, denied: retryAfter, more: xRateLimit,
		body: "Too Many Requests", wide: true,
	},
	{
		name: "Fiber 2, sliding window", clock: ownClock,
		peer:     func() server { return onFiber(fiberSliding) },
		ours:     func() server { return onFiber(fromFiberSliding) },
		requests: []step{{0, 13, 10}},
		allowed:  xRateLimit, denied: retryAfter, more: xRateLimit,
		body: "Too Many Requests", wide: true,
	},
	{
		name: "Fiber 3", clock: ownClock,
		peer:     func() server { return onFiber3(fiber3Plans) },
		ours:     func() server { return onFiber3(fromFiber3Plans) },
		requests: []step{{0, 13, 10}},
		allowed:  xRateLimit, denied: retryAfter, more: xRateLimit,
		body: "Too Many Requests", wide: true,
	},
	{
		name: "gin-rate-limit", clock: ownClock, // its cleaner would remove what another clock says is old
		peer:     func() server { return onGin(ginRateLimit) },
		ours:     func() server { return onGin(fromGinRateLimit) },
		requests: []step{{0, 13, 10}},
		lacking:  xRateHyphenLimit, more: retryAfter + " " + xRateLimit,
		body: "Too many requests", forged: true, wide: true,
	},
	{
		name: "httprate",
		peer: func() server { return onChi(httpRate) },
		ours: func() server { return onChi(fromHTTPRate) },
		// Half a window on, half of the ten count, so 5 more pass; and a whole window later, 7.
		requests: []step{{0, 13, 10}, {90 * time.Second, 7, 5}, {60 * time.Second, 9, 7}, {time.Hour, 13, 10}},
		allowed:  xRateLimit, denied: xRateLimit + " " + retryAfter,
		body: "Too Many Requests",
	},
	{
		name:     "tollbooth 8",
		peer:     func() server { return served(tollBooth(page)) },
		ours:     func() server { return served(fromTollBooth(page)) },
		requests: []step{{0, 13, 10}, {150 * time.Millisecond, 3, 1}, {200 * time.Millisecond, 4, 2}, {time.Minute, 13, 10}},
		allowed:  rateLimit, denied: rateLimit, more: retryAfter,
		lacking: "X-Rate-Limit-Limit X-Rate-Limit-Duration X-Rate-Limit-Request-Remote-Addr",
		body:    "You have reached maximum request limit.",
	},
	{
		name:     "Echo 4",
		peer:     func() server { return onEcho(echoOwn) },
		ours:     func() server { return onEcho(fromEchoOwn) },
		requests: []step{{0, 23, 20}, {75 * time.Millisecond, 3, 1}, {100 * time.Millisecond, 4, 2}, {time.Minute, 23, 20}},
		more:     retryAfter,
		body:     `{"message":"rate limit exceeded"}`, forged: true, wide: true,
	},
	{
		name:     "Echo 5",
		peer:     func() server { return onEcho5(echo5Own) },
		ours:     func() server { return onEcho5(fromEcho5Own) },
		requests: []step{{0, 23, 20}, {75 * time.Millisecond, 3, 1}, {time.Minute, 23, 20}},
		allowed:  "X-Ratelimit-Limit X-Ratelimit-Remaining", denied: "X-Ratelimit-Limit X-Ratelimit-Remaining " + retryAfter,
		more: "X-Ratelimit-Reset",
		body: `{"message":"rate limit exceeded"}`, wide: true,
	},
	{
		name: "go-limiter", clock: ownClock,
		peer:     func() server { return served(must(goLimiter(page))) },
		ours:     func() server { return served(fromGoLimiter(page)) },
		requests: []step{{0, 13, 10}},
		allowed:  xRateLimit, denied: xRateLimit + " " + retryAfter,
		body: "Too Many Requests", wide: true,
	},
	{
		name:     "throttled",
		peer:     func() server { return served(must(throttledOwn(page))) },
		ours:     func() server { return served(fromThrottled(page)) },
		requests: []step{{0, 8, 6}, {4 * time.Second, 3, 1}, {6 * time.Second, 4, 2}, {time.Minute, 8, 6}},
		allowed:  xRateLimit, denied: xRateLimit + " " + retryAfter,
		body: "limit exceeded", wide: true,
	},
	{
		name:     "golang.org/x/time/rate",
		peer:     func() server { return served(timeRate(page)) },
		ours:     func() server { return served(fromTimeRate(page)) },
		requests: []step{{0, 13, 10}, {600 * time.Millisecond, 3, 1}, {time.Second, 4, 2}, {time.Minute, 13, 10}},
		more:     retryAfter,
		body:     "Too Many Requests", wide: true,
	},
}
