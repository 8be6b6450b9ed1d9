// Command llm is a gateway for language models. Customers call it with the libraries of OpenAI and Anthropic. It reserves
// what a call may cost, passes the answer on as it comes, and charges what was used: of tokens per minute and model, of a
// plan in money per month and then of credits, and of what the providers grant the gateway. A stream ends where its reservation does.
//
// It keeps the limits in memory, or in Redis if REDIS_URL is set. It listens on ADDR, by default :8080. The model is in
// this program, unless OPENAI_UPSTREAM and OPENAI_API_KEY, or ANTHROPIC_UPSTREAM and ANTHROPIC_API_KEY, name real ones,
// such as https://api.openai.com.
package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
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
	fake, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	model := http.Server{Handler: fakeModel(), ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Fatal(model.Serve(fake)) }()

	gateway, err := newGateway(store, providerOf("OPENAI", fake), providerOf("ANTHROPIC", fake))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf(`Listening. See what a question takes of 20,000 tokens a minute, and what is left after it:

  curl -i -H 'Authorization: Bearer demo' -d '{"model":"gpt-4o-mini","max_tokens":2000,"messages":[{"role":"user","content":"Why is the sky blue?"}]}' '%[1]s/v1/chat/completions'   # 200: X-Ratelimit-Remaining-Tokens: 179 (2000 and the question are reserved)
  curl -iN -H 'Authorization: Bearer demo' -d '{"model":"gpt-4o-mini","max_tokens":2000,"stream":true,"messages":[{"role":"user","content":"And at night?"}]}' '%[1]s/v1/chat/completions'   # 200: X-Ratelimit-Remaining-Tokens: 179 (almost all was given back)
  curl -iN -H 'X-API-Key: demo' -d '{"model":"claude-haiku-4-5","max_tokens":2000,"stream":true,"messages":[{"role":"user","content":"Why?"}]}' '%[1]s/v1/messages'   # 200: Anthropic-Ratelimit-Tokens-Remaining: 179 (each model has a limit of its own)

Long questions cost thousands of tokens each. Reach the limit:

  for i in 1 2 3 4 5; do printf '{"model":"gpt-4o-mini","max_tokens":4000,"messages":[{"role":"user","content":"%%s"}]}' "$(yes why | head -n 3900 | tr '\n' ' ')" | curl -s -w ' %%{http_code}\n' -H 'Authorization: Bearer demo' --data-binary @- '%[1]s/v1/chat/completions' | tail -c 300; done   # 200, then 429: rate_limit_exceeded
`, fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port))
	server := http.Server{Handler: gateway, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

// providerOf returns the provider that the environment names, or the fake one.
func providerOf(name string, fake net.Listener) provider {
	address := cmp.Or(os.Getenv(name+"_UPSTREAM"), "http://"+fake.Addr().String())
	to, err := url.Parse(address)
	if err != nil || to.Host == "" {
		log.Fatalf("%s_UPSTREAM must be like https://api.openai.com: %v", name, err)
	}
	return provider{to, os.Getenv(name + "_API_KEY")}
}
