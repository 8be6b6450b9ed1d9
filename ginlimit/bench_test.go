package ginlimit_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/internal/test/limittest"
)

// An allowed request allocates once: the decision, with the text of its RateLimit
// and the slice of one that http.Header keeps it in, the context that holds it and
// the copy of the request with that context. A RateLimit of several limits is too
// long to be kept there.
//
// Its RateLimit-Policy and its key cost none, whatever the number of limits. A
// denied one has in addition the values of Retry-After and Content-Length, the
// slices of these, and the body.
var allocations = limittest.Allocations{Allowed: 1, Several: 2, ByRoute: 1, Denied: 6, AllowedNoContext: 1, SilentNoContext: 0, DeniedNoContext: 7}

func engine(middleware ...gin.HandlerFunc) http.Handler {
	r := gin.New()
	r.Use(middleware...)
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	return r
}

var count, serve = limittest.OfHandler(engine)

func BenchmarkLimit(b *testing.B) { adapter.Benchmark(b, serve) }

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) { adapter.Allocates(t, allocations, count) }
