package echolimit_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/internal/test/limittest"
)

func noContent(c echo.Context) error { return c.NoContent(http.StatusNoContent) }

func engine(middleware ...echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	e.Use(middleware...)
	e.GET("/", noContent)
	return e
}

var count, serve = limittest.OfHandler(engine)

func BenchmarkLimit(b *testing.B) { exported.Benchmark(b, serve) }

// Not parallel: it counts the allocations of the process.
func TestAllocations(t *testing.T) { exported.Allocates(t, allocations, count) }
