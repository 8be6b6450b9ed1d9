package fiberlimit_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Only the handler knows to whom a message goes, and asks a limit for that.
func ExampleGuard() {
	limits := fiberlimit.With(core.Config{Store: core.NewMemory(), Headers: core.XRateLimitDelta})
	perRecipient := limits.Guard(core.PerHour(2).Named("recipient"))

	app := fiber.New()
	app.Post("/messages", func(c *fiber.Ctx) error {
		var message struct{ To string }
		if err := c.BodyParser(&message); err != nil {
			return err
		}
		if ok, err := perRecipient.Allow(c, keyfuncs.Encode("to", message.To), 1); !ok {
			return err
		}
		return c.SendString("sent")
	})

	for _, to := range []string{"ann", "ann", "ann", "ben"} {
		r := httptest.NewRequest("POST", "/messages", strings.NewReader(`{"to": "`+to+`"}`))
		r.Header.Set("Content-Type", "application/json")
		res, err := app.Test(r, -1)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = res.Body.Close()
		fmt.Println(to, res.StatusCode, res.Header.Get("X-RateLimit-Remaining"), "left")
	}
	// Output:
	// ann 200 1 left
	// ann 200 0 left
	// ann 429 0 left
	// ben 200 1 left
}
