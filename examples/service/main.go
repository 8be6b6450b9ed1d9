// Command service shows the limiter as a service: one policy file, a service that decides by it in memory, and
// two applications that ask it. One is in Go and takes an adapter; the other asks by HTTP, as a program in any
// language would. They share the limits. Both are in apps.go, the limits in limits.yaml.
//
// The service listens on ADDR, by default 127.0.0.1:8080, and on loopback only, since it believes
// whoever asks it. The applications listen on free ports. In production the service is weblimitd.
package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service"
)

//go:embed limits.yaml
var limits []byte

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := start(); err != nil {
		log.Fatal(err)
	}
	<-signals
}

// start starts the service and its applications, and prints what to try.
func start() error {
	set, err := policy.Parse("limits.yaml", limits)
	if err != nil {
		return err
	}
	limiter, err := service.New(service.Config{Policies: set, Store: core.NewMemory()})
	if err != nil {
		return err
	}
	at, err := netip.ParseAddrPort(strings.Replace(cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"), "localhost:", "127.0.0.1:", 1))
	if err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("ADDR must be an address and port on loopback, such as 127.0.0.1:8080, got %q", os.Getenv("ADDR"))
	}
	asked, err := serve(at.String(), limiter.Handler())
	if err != nil {
		return fmt.Errorf("%w: ADDR=127.0.0.1:0 takes a free port", err)
	}
	orders, err := newOrders(asked)
	if err != nil {
		return err
	}
	shop, err := serve("127.0.0.1:0", orders)
	if err != nil {
		return err
	}
	reports, err := serve("127.0.0.1:0", newReports(asked))
	if err != nil {
		return err
	}
	fmt.Printf(`Listening. Orders is in Go, reports asks as a program in any language would, and %[1]s decides for both:

  curl -i %[2]s/   # 200
  for i in 1 2 3 4 5; do curl -s -w ' %%{http_code}\n' %[2]s/; done   # 200, then 429: "client"
  curl -s -w ' %%{http_code}\n' %[3]s/   # 429: "client" (the quota is the same)
  for i in 1 2 3; do curl -s -w ' %%{http_code}\n' '%[1]s/v1/check?denied=status' -H 'Content-Type: application/json' -d '{"policy":"exports","key":"user:ada"}'; done   # 200, then 429: "export"
  curl -s -w ' %%{http_code}\n' %[1]s/v1/peek -H 'Content-Type: application/json' -d '{"policy":"exports","key":"user:bob"}'   # 200: "remaining":2 (another user has a quota of his own)
`, asked, shop, reports)
	return nil
}

// serve serves on a free port of loopback, or another address, and returns its URL.
func serve(addr string, h http.Handler) (url string, err error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Fatal(server.Serve(listener)) }()
	return "http://" + listener.Addr().String(), nil
}
