// Code generated from fiberlimit/bench_test.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/internal/test/limittest"
)

// An allowed request allocates once: the decision, with the text of its RateLimit,
// and the context that holds it. A RateLimit of several limits is too long to be
// kept there.
//
// Its RateLimit-Policy and its key cost none, whatever the number of limits, nor
// does its route. A denied one has in addition the value of Retry-After; its body
// is written to a buffer that fasthttp reuses.
var allocations = limittest.Allocations{Allowed: 1, Several: 2, ByRoute: 1, Denied: 2, AllowedNoContext: 0, SilentNoContext: 0, DeniedNoContext: 2}

// noContent serves connections, with fasthttp reading and writing: the bare one is the
// measure.
func noContent(limiters ...fiber.Handler) limittest.ServeConn {
	f := fiber.New()
	for _, limit := range limiters {
		f.Use(limit)
	}
	f.Get("/", func(c fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
	f.Handler() // prepares the app to serve
	return f.Server().ServeConn
}

func BenchmarkLimit(b *testing.B) {
	exported.Benchmark(b, func(b *testing.B, limiters ...fiber.Handler) { limittest.BenchmarkConn(b, noContent(limiters...)) })
}

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) {
	exported.Allocates(t, allocations, func(t *testing.T, limiters ...fiber.Handler) int {
		return limittest.AllocsConn(t, noContent(limiters...))
	})
}
