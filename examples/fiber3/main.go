// Command fiber3 is a server on Fiber 3 with rate limits: 5 requests per 10 seconds for
// each client, and 2 exports per minute. It keeps them in memory, or in Redis if
// REDIS_URL is set. It listens on ADDR, by default :8080.
package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/fiber3limit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func main() {
	var store core.Store = core.NewMemory()
	if url := os.Getenv("REDIS_URL"); url != "" {
		options, err := redis.ParseURL(url)
		if err != nil {
			log.Fatalf("REDIS_URL must be like redis://localhost:6379/0: %v", err)
		}
		store = redisstore.New(redis.NewClient(options))
	}
	app := fiber.New()
	app.Use(recover.New(), fiber3limit.Limit(store, core.Per(5, 10*time.Second).By(keyfuncs.ClientIP()).Named("client")))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello\n") })

	export := app.Group("/export", fiber3limit.Limit(store, core.PerMinute(2).By(keyfuncs.ClientIP()).Named("export")))
	export.Post("", func(c fiber.Ctx) error { return c.SendString("exported\n") })

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	url := fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	fmt.Printf(`Listening. See the limits, reach that of a group, then the one for all routes:

  curl -i %[1]s/   # 200
  for i in 1 2 3; do curl -i -X POST %[1]s/export; done   # 200, then 429: "export"
  for i in 1 2 3 4 5 6 7; do curl -s -w ' %%{http_code}\n' %[1]s/; done   # 200, then 429: "client"
`, url)
	log.Fatal(app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}))
}
