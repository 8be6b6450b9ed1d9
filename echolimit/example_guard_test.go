package echolimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/echolimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Only the handler knows to whom a message goes, and asks a limit for that.
func ExampleGuard() {
	limits := echolimit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	perRecipient := limits.Guard(core.PerHour(2).Named("recipient"))

	e := echo.New()
	e.POST("/messages", func(c echo.Context) error {
		var message struct{ To string }
		if err := c.Bind(&message); err != nil {
			return err
		}
		if ok, err := perRecipient.Allow(c, keyfuncs.Encode("to", message.To), 1); !ok {
			return err
		}
		return c.String(http.StatusOK, "sent")
	})

	for _, to := range []string{"ann", "ann", "ann", "ben"} {
		r := httptest.NewRequest("POST", "/messages", strings.NewReader(`{"to": "`+to+`"}`))
		r.Header.Set("Content-Type", "application/json")
		res := httptest.NewRecorder()
		e.ServeHTTP(res, r)
		fmt.Println(to, res.Code, res.Header().Get("X-RateLimit-Remaining"), "left")
	}
	// Output:
	// ann 200 1 left
	// ann 200 0 left
	// ann 429 0 left
	// ben 200 1 left
}
