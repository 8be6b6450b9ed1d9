package ginlimit_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Time-out middleware behind the limiter gives the handler a context that ends when
// it returns. Nobody canceled the request for that.
func TestAContextFurtherInIsNotTheRequests(t *testing.T) {
	t.Parallel()
	var seen core.Outcome
	r := gin.New()
	r.Use(ginlimit.Limit(core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()).RefundOn(func(o core.Outcome) bool {
		seen = o
		return false
	})))
	r.Use(func(c *gin.Context) {
		ctx, cancel := context.WithCancel(c.Request.Context())
		defer cancel()
		c.Request = c.Request.WithContext(ctx)
		c.Next()
	})
	r.GET("/", func(c *gin.Context) { c.String(200, "hello") })
	r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if seen.Status != 200 || seen.Canceled || seen.TimedOut {
		t.Errorf("%+v", seen)
	}
}
