// Command api is an API with realistic limits: logins, codes, reads, writes,
// webhooks, uploads, an expensive model, anonymous and keyed search, and plans. The
// limits are in app/limits.go, the routes in app/api.go. It keeps them in memory, or in
// Redis if REDIS_URL is set. It listens on ADDR, by default :8080. BYPASS_TOKEN
// exempts the monitoring.
package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"os"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/examples/api/app"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
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
	gin.SetMode(gin.ReleaseMode)
	denials := weblimitslog.Must(weblimitslog.New(weblimitslog.Config{}))
	r, err := app.New(app.Config{
		Store: store, BypassToken: os.Getenv("BYPASS_TOKEN"), Observe: denials, Plans: app.Plans, Keys: app.Keys,
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	url := fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	fmt.Printf(`Listening. Some limits to meet:

  for i in 1 2 3 4 5 6; do curl -s -w ' %%{http_code}\n' -X POST %[1]s/login; done   # 200, then 429: "login"
  for i in 1 2 3 4 5 6; do curl -s -w ' %%{http_code}\n' -H 'X-API-Key: one' %[1]s/v1/export; done   # 200, then 429: "key-export"
  curl -i %[1]s/app/report   # 401: authenticated user
  curl -i -H 'Authorization: Bearer carol' %[1]s/app/report   # 200: "plan";q=10000;w=100
  curl -i %[1]s/articles   # 200: "reads"
`, url)
	log.Fatal(r.RunListener(listener))
}
