// Command observed shows what limits do to good and bad clients: a shop under their load, with the operators'
// page and metrics for Prometheus. The limits and what observes them are in shop.go, the clients in load.go.
//
// It listens on ADDR, by default 127.0.0.1:8080, and on loopback only. With REDIS_ADDR, such as
// localhost:6379, or REDIS_URL two instances share their limits through Redis; the second one listens
// on the next port. Ctrl-C ends it.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
	log.Print("stopped")
}

// run serves the shop and sends it requests until ctx ends.
func run(ctx context.Context, env func(string) string, out io.Writer) error {
	shared, err := redisOptions(env)
	if err != nil {
		return err
	}
	addrs, err := addresses(cmp.Or(env("ADDR"), "127.0.0.1:8080"), shared != nil)
	if err != nil {
		return err
	}
	password, logSecret := rand.Text(), rand.Text()
	var instances []*instance
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		for _, in := range instances {
			in.close(ctx)
		}
	}()
	for i, addr := range addrs {
		in, err := newInstance(fmt.Sprint("web-", i+1), shared, password, logSecret)
		if err != nil {
			return err
		}
		instances = append(instances, in)
		if err := in.serve(ctx, addr); err != nil {
			return fmt.Errorf("%w: ADDR=127.0.0.1:0 takes a free port", err)
		}
	}
	introduce(out, instances, password)
	load(ctx, instances)
	return nil
}

// redisOptions returns how to reach Redis, nil to count in memory.
func redisOptions(env func(string) string) (*redis.Options, error) {
	addr, url := env("REDIS_ADDR"), env("REDIS_URL")
	switch {
	case addr != "" && url != "":
		return nil, errors.New("both REDIS_ADDR and REDIS_URL are set")
	case url != "":
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("REDIS_URL must be like redis://localhost:6379/0: %w", err)
		}
		return options, nil
	case addr != "":
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("REDIS_ADDR must be like localhost:6379: %w", err)
		}
		return &redis.Options{Addr: addr}, nil
	}
	return nil, nil
}

// addresses returns where to listen: at addr, and if there are two instances at the next port.
func addresses(addr string, two bool) ([]string, error) {
	at, err := netip.ParseAddrPort(strings.Replace(addr, "localhost:", "127.0.0.1:", 1))
	if err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("ADDR must be an address and port on loopback, such as 127.0.0.1:8080, got %q", addr)
	}
	if !two {
		return []string{at.String()}, nil
	}
	next := at.Port()
	switch next {
	case 0: // any free port
	case 65535:
		return nil, errors.New("the second instance listens on the next port: ADDR must have a port up to 65534")
	default:
		next++
	}
	return []string{at.String(), netip.AddrPortFrom(at.Addr(), next).String()}, nil
}

// introduce says where everything is. The lines that begin with two blanks are commands to paste.
func introduce(out io.Writer, instances []*instance, password string) {
	one := instances[0].url
	other := instances[len(instances)-1].url
	for _, in := range instances {
		fmt.Fprintf(out, "The page:    %s/ops/limits/ (%s)\n", in.url, in.name)
	}
	fmt.Fprintf(out, "Log in as:   ops, password %s\n", password)
	for _, in := range instances {
		fmt.Fprintf(out, "Prometheus:  %s/metrics\n", in.url)
	}
	fmt.Fprintf(out, `
Be a client yourself. Then find your key or your address on the page, and block or reset it.

  curl -i -H 'X-API-Key: me' %[1]s/v1/items/7   # 200: "customer"
  for i in $(seq 40); do curl -s -o /dev/null -w ' %%{http_code}\n' -H 'X-API-Key: me' %[2]s/v1/items/7; done   # 200, then 429
  for i in 1 2 3 4 5 6 7; do curl -s -w ' %%{http_code}\n' -X POST -d password=guess %[1]s/login; done   # 401, then 429: "login"
  curl -s -w ' %%{http_code}\n' -u ops:%[3]s -H 'Content-Type: application/json' -H 'Weblimit-Inspect: 1' -d '{"query":"me"}' %[1]s/ops/limits/api/v1/explain   # 200: "customer"
  curl -i %[2]s/metrics   # 200: weblimit_decisions_total

Ctrl-C ends it. Every ten seconds each limit logs a line about denials:

`, one, other, password)
}
