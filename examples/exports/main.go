// Command exports lets each client run two exports at a time; further exports wait
// for a slot. It keeps the slots in memory, or in Redis if REDIS_URL is set. It
// listens on ADDR, by default :8080.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
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
	e := newServer(store, 5*time.Second, func(context.Context) { time.Sleep(2 * time.Second) })
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	url := fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	fmt.Printf(`Listening. Two exports of two seconds run at a time, others wait up to five:

  for i in 1 2 3 4 5 6 7 8 9 10; do curl -s -w ' %%{http_code} after %%{time_total}s\n' -X POST %[1]s/export & done; wait   # 200, then 429: "exports"
`, url)
	e.Listener, e.HideBanner, e.HidePort = listener, true, true
	log.Fatal(e.Start(""))
}
