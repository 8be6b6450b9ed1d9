package peers

import (
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/limiter"
)

// fiberBuiltIn is Fiber's own middleware. Its default key is what Fiber takes for the
// client's address.
var fiberBuiltIn = Peer{
	Name: "fiber", Module: "github.com/gofiber/fiber/v2", Counts: "fixed window, per key from its first use; counts denied requests too",
	Fiber: func(q Quota) (fiber.Handler, error) {
		return limiter.New(limiter.Config{Max: int(q.Units), Expiration: q.Window}), nil
	},
}
