package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Only the handler knows to whom a message goes, and asks a limit for that.
func ExampleGuard() {
	limits := ginlimit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	perRecipient := limits.Guard(core.PerHour(2).Named("recipient"))

	r := gin.New()
	r.POST("/messages", func(c *gin.Context) {
		var message struct{ To string }
		if c.BindJSON(&message) != nil {
			return
		}
		if !perRecipient.Allow(c, keyfuncs.Encode("to", message.To), 1) {
			return
		}
		c.String(http.StatusOK, "sent")
	})

	for _, to := range []string{"ann", "ann", "ann", "ben"} {
		req := httptest.NewRequest("POST", "/messages", strings.NewReader(`{"to": "`+to+`"}`))
		req.Header.Set("Content-Type", "application/json")
		res := httptest.NewRecorder()
		r.ServeHTTP(res, req)
		fmt.Println(to, res.Code, res.Header().Get("X-RateLimit-Remaining"), "left")
	}
	// Output:
	// ann 200 1 left
	// ann 200 0 left
	// ann 429 0 left
	// ben 200 1 left
}
