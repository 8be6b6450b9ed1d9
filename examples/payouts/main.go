// Command payouts pays money out, which is unsafe to repeat. What is over the limit is not refused, which would have
// clients try again, but queued: the answer is 202 with the address that tells what became of it. A client
// that repeats a request, with the same Idempotency-Key, gets the same payout. The limit is in memory, or in Redis if
// REDIS_URL is set; the payouts themselves are in memory. It listens on ADDR, by default :8080.
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
	handler := newServer(context.Background(), store, func(p *payout) { log.Printf("%s is paid %d", p.customer, p.Cents) })
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d", listener.Addr().(*net.TCPAddr).Port)
	fmt.Printf(`Listening. Three payouts at once, then one every ten seconds:

  for i in 1 2 3 4; do curl -s -w ' %%{http_code}\n' -u alice: -H "Idempotency-Key: pay-$i" -d '{"cents":500}' %[1]s/payouts; done   # 201, then 202: "queued"
  curl -i -u alice: %[1]s/payouts/pay-4   # 200: "id":"pay-4"
  curl -s -w ' %%{http_code}\n' -u alice: -H "Idempotency-Key: pay-1" -d '{"cents":500}' %[1]s/payouts   # 200: "paid"
  for i in $(seq 40); do curl -s -w ' %%{http_code}\n' -u alice: %[1]s/payouts/pay-1; done   # 200, then 429: "requests"
`, url)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}
