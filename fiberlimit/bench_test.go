package fiberlimit_test

import (
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// An allowed request allocates once: the decision, with the text of its RateLimit,
// and the context that holds it. A RateLimit of several limits is too long to be
// kept there.
//
// Its RateLimit-Policy and its key cost none, whatever the number of limits, nor
// does its route. A denied one has in addition the value of Retry-After; its body
// is written to a buffer that fasthttp reuses.
const (
	allocsAllowed = 1
	allocsSeveral = 2
	allocsDenied  = 2
)

// app serves connections, with fasthttp reading and writing: the bare one is the
// measure.
func app(limiters ...fiber.Handler) limittest.ServeConn {
	f := fiber.New()
	for _, limit := range limiters {
		f.Use(limit)
	}
	f.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) })
	f.Handler() // prepares the app to serve
	return f.Server().ServeConn
}

func byRoute() fiber.Handler {
	return fiberlimit.Limit(core.NewMemory(), core.PerSecond(1_000_000_000).By(keyfuncs.Route()))
}

func BenchmarkBare(b *testing.B) { limittest.BenchmarkConn(b, app()) }

func BenchmarkAllowed(b *testing.B) {
	limittest.BenchmarkConn(b, app(fiberlimit.New(limittest.Ample(1))))
}

func BenchmarkAllowedThreeLimits(b *testing.B) {
	limittest.BenchmarkConn(b, app(fiberlimit.New(limittest.Ample(3))))
}

func BenchmarkAllowedByRoute(b *testing.B) { limittest.BenchmarkConn(b, app(byRoute())) }

func BenchmarkDenied(b *testing.B) {
	limittest.BenchmarkConn(b, app(fiberlimit.New(limittest.Exhausted())))
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	bare := limittest.AllocsConn(t, app())
	for _, tt := range []struct {
		name    string
		limiter fiber.Handler
		want    int
	}{
		{"allowed", fiberlimit.New(limittest.Ample(1)), allocsAllowed},
		{"allowed by three limits", fiberlimit.New(limittest.Ample(3)), allocsSeveral},
		{"allowed by route", byRoute(), allocsAllowed},
		{"denied", fiberlimit.New(limittest.Exhausted()), allocsDenied},
		{"allowed, with NoContext", fiberlimit.New(limittest.Ample(1), fiberlimit.Config{NoContext: true}), 0},
		{"allowed, with NoContext and without headers", fiberlimit.New(limittest.Silent(), fiberlimit.Config{NoContext: true}), allocsAllowed - 1},
		{"denied, with NoContext", fiberlimit.New(limittest.Exhausted(), fiberlimit.Config{NoContext: true}), allocsDenied},
	} {
		if got := limittest.AllocsConn(t, app(tt.limiter)) - bare; got > tt.want {
			t.Errorf("%s: %d allocations, want at most %d", tt.name, got, tt.want)
		}
	}
}
