package ginlimit

import (
	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/usage"
)

// Usage returns a handler that tells each client its own limits, as JSON: see package usage. Mount it behind what
// authenticates clients, and behind a limit of its own. It panics if a limiter of own has a key or condition of
// another framework.
func Usage(own *usage.Usage) gin.HandlerFunc {
	for _, limiter := range own.Limiters() {
		adapter.New(limiter, "gin", "*gin.Context", "*http.Request")
	}
	return func(c *gin.Context) { stdhttp.Tell(c.Writer, c.Request, own.Answer(request{c})) }
}
