// Command login has a login that counts failed attempts only, by address and by the account in the
// body, and blocks repeat offenders, each time for longer. An admin lists and lifts the blocks. It keeps
// them in memory, or in Redis if REDIS_URL is set. It listens on ADDR, by default
// :8080.
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
	r, _ := newServer(store)
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", listener.Addr().(*net.TCPAddr).Port)
	fmt.Printf(`Listening. Log in as often as you like, fail until you are blocked, and lift it:

  for i in 1 2 3 4 5 6; do curl -s -w ' %%{http_code}\n' -d '{"name":"alice","password":"opensesame"}' %[1]s/login; done   # 200
  for i in 1 2 3 4 5 6 7 8 9; do curl -s -w ' %%{http_code}\n' -d '{"name":"alice","password":"wrong"}' %[1]s/login; done   # 401, then 429: Blocked
  curl -i -u admin:admin %[1]s/blocks   # 200: ip:127.0.0.1
  curl -i -u admin:admin -X DELETE %[1]s/blocks/ip:127.0.0.1   # 204
  curl -i -u admin:admin %[1]s/blocks   # 200: []
`, url)
	log.Fatal(r.RunListener(listener))
}
