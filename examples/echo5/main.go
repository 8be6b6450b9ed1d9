// Command echo5 is a server on Echo 5 with rate limits: 5 requests per 10 seconds for
// each client, and 2 exports per minute. It keeps them in memory, or in Redis if
// REDIS_URL is set. It listens on ADDR, by default :8080.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/echo5limit"
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
	e := echo.New()
	e.Use(middleware.Recover(), echo5limit.Limit(store, core.Per(5, 10*time.Second).By(keyfuncs.ClientIP()).Named("client")))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello\n") })

	export := e.Group("/export", echo5limit.Limit(store, core.PerMinute(2).By(keyfuncs.ClientIP()).Named("export")))
	export.POST("", func(c *echo.Context) error { return c.String(http.StatusOK, "exported\n") })

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
	config := echo.StartConfig{Listener: listener, HideBanner: true, HidePort: true}
	log.Fatal(config.Start(context.Background(), e))
}
