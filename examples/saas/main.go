// Command saas is a service with plans: tenants with API keys and monthly quotas. Its limits and the API of its
// customers are in service.go, the page of whoever bills them in console.go, the notices that they get in
// notices.go.
//
// It listens on ADDR, by default 127.0.0.1:8080, and on loopback only. Everything is in memory, unless
// DATABASE_URL, such as postgres://localhost/saas, names a PostgreSQL database. With REDIS_ADDR, such as
// localhost:6379, too, several processes can share the limits. Ctrl-C ends it.
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
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/quota"
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

// run serves until ctx ends.
func run(ctx context.Context, env func(string) string, out io.Writer) (err error) {
	at, err := netip.ParseAddrPort(strings.Replace(cmp.Or(env("ADDR"), "127.0.0.1:8080"), "localhost:", "127.0.0.1:", 1))
	if err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("ADDR must be an address and port on loopback, such as 127.0.0.1:8080, got %q", env("ADDR"))
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", at.String())
	if err != nil {
		return fmt.Errorf("%w: ADDR=127.0.0.1:0 takes a free port", err)
	}
	defer listener.Close()
	url := "http://" + listener.Addr().String()
	notices := newNotices()
	webhook, err := notices.channel(url + "/hooks/notices")
	if err != nil {
		return err
	}
	book, closeBook, err := openBook(ctx, env("DATABASE_URL"), env("REDIS_ADDR"), webhook)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBook()) }()
	password := rand.Text()
	s, err := newService(ctx, book, notices, password)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	introduce(out, url, password)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// The book is closed after the last request, so that all of them are written. Notices that the
	// receiver has not got are delivered after the next start.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*patience)
	defer cancel()
	return server.Shutdown(ctx)
}

// openBook returns the book, and what closes it and its connections.
func openBook(ctx context.Context, databaseURL, redisAddr string, webhook quota.Channel) (*quota.Book, func() error, error) {
	if databaseURL == "" {
		if redisAddr != "" {
			return nil, nil, errors.New("REDIS_ADDR needs DATABASE_URL: a book in memory forgets what Redis has counted")
		}
		book := quota.InMemory(quota.Config{Store: core.NewMemory(), Notices: []quota.Channel{webhook}})
		return book, func() error { return book.Close(context.Background()) }, nil
	}
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return nil, nil, fmt.Errorf("DATABASE_URL must be like postgres://user@localhost/saas: %w", err)
	}
	var store core.Store = core.NewMemory()
	closeRedis := func() error { return nil }
	if redisAddr != "" {
		rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
		store, closeRedis = redisstore.New(rdb), rdb.Close
	}
	book, err := quota.Open(ctx, pool, quota.Config{Store: store, Notices: []quota.Channel{webhook}})
	if err != nil {
		pool.Close()
		return nil, nil, errors.Join(err, closeRedis())
	}
	return book, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
		defer cancel()
		err := book.Close(ctx)
		pool.Close()
		return errors.Join(err, closeRedis())
	}, nil
}

// introduce says where everything is. The lines that begin with two blanks are commands to paste.
func introduce(out io.Writer, url, password string) {
	fmt.Fprintf(out, `The page:    %[1]s/console/
Log in as:   billing, password %[2]s

Be a customer: acme has the plan "free", 20 requests a month. Look at the page after each step.

  curl -i -H 'X-API-Key: acme-key' %[1]s/v1/report   # 200: X-Quota-Remaining
  for i in $(seq 40); do curl -s -o /dev/null -w ' %%{http_code}\n' -H 'X-API-Key: acme-key' %[1]s/v1/report; done   # 200, then 429
  curl -i -H 'X-API-Key: acme-key' %[1]s/v1/report   # 429: Your plan's 20 requests for

Sell it ten more. A payment that is reported twice counts once.

  curl -i -u billing:%[2]s -d operation=payment-1 -d units=10 %[1]s/console/tenants/acme/top-up   # 303
  curl -i -u billing:%[2]s -d operation=payment-1 -d units=10 %[1]s/console/tenants/acme/top-up   # 303: done=before
  sleep 2; curl -i -H 'X-API-Key: acme-key' %[1]s/v1/report   # 200: X-Quota-Limit: 30

What was used is in the book a second later, also for customers and for a bill.

  sleep 2; curl -i -H 'X-API-Key: acme-key' %[1]s/v1/usage   # 200: "used": 21
  curl -i -u billing:%[2]s %[1]s/console/tenants/acme/statement.csv   # 200: tenant:acme

A plan with room for overage, in the middle of the month.

  curl -i -u billing:%[2]s -d plan=team %[1]s/console/tenants/acme/plan   # 303
  sleep 2; curl -i -H 'X-API-Key: acme-key' %[1]s/v1/report   # 200: X-Quota-Limit: 1210

Ctrl-C ends it.
`, url, password)
}
