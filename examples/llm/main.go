// Command llm is a language model behind a quota of tokens. A request is charged its
// maximum cost first, and cannot exceed it. The answer is streamed, and each token
// is charged as it is written. The unused part of the first charge is given back. It
// keeps the quota in memory, or in Redis if REDIS_URL is set. It listens on ADDR, by
// default :8080.
package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"net/http"
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
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	url := fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	fmt.Printf(`Listening. See what a question takes of 10,000 tokens a minute, and what is left after it:

  curl -iN -H 'X-API-Key: demo' -d 'Why is the sky blue?' '%[1]s/generate?max_tokens=2000'   # 200: "tokens";r= (8000 are left)
  curl -i  -H 'X-API-Key: demo' -d 'fail' '%[1]s/generate?max_tokens=2000'   # 502: "tokens";r= (almost 8000: what failed is given back)
  curl -iN -H 'X-API-Key: demo' -d 'And at night?' '%[1]s/generate?max_tokens=2000'   # 200: "tokens";r= (almost 8000 again: an answer costs what it took)

Long questions cost thousands of tokens each. Reach the limit:

  for i in 1 2 3 4 5; do yes why | head -n 1900 | curl -s -w ' %%{http_code}\n' -H 'X-API-Key: demo' --data-binary @- '%[1]s/generate?max_tokens=4000' | tail -c 300; done   # 200, then 429: "tokens"
`, url)
	server := http.Server{Handler: newServer(store), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
