//go:build linux

package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// runApp serves an application twice, without a limiter and with the library, and prints where.
func runApp(server string) error {
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
	limits := nethttp.With(core.Config{
		Store:   redisstore.New(redis.NewClient(&redis.Options{Addr: server}), redisstore.Config{Prefix: "app:"}),
		Timeout: time.Minute,
	})
	failed := make(chan error)
	line := "listening"
	for _, h := range []http.Handler{app, limits.Limit(limitOf(keyfuncs.ClientIP(keyfuncs.TrustedProxies("127.0.0.1/32"))))(app)} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		line += " " + l.Addr().String()
		s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
		go func() { failed <- s.Serve(l) }()
	}
	fmt.Println(line)
	return <-failed
}

// nginxFile asks as deploy/gateways/nginx does, without TLS, and without what denials and outages need.
const nginxFile = `daemon off; master_process off; pid DIR/pid; worker_rlimit_nofile 4096;
events { worker_connections 2048; }
http {
	access_log off;
	client_body_temp_path DIR/1; proxy_temp_path DIR/2; fastcgi_temp_path DIR/3; uwsgi_temp_path DIR/4; scgi_temp_path DIR/5;
	keepalive_requests 1000000;
	upstream weblimit { server unix:LIMITER; keepalive 64; }
	upstream app { server PLAIN; keepalive 64; }
	upstream limited { server LIMITED; keepalive 64; }
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_set_header X-Forwarded-For $remote_addr;
	server {
		listen ADDR;
		location /plain { proxy_pass http://app; }
		location /library { proxy_pass http://limited; }
		location /gateway {
			auth_request /weblimit;
			auth_request_set $weblimit_ratelimit $upstream_http_ratelimit;
			auth_request_set $weblimit_policy $upstream_http_ratelimit_policy;
			add_header RateLimit $weblimit_ratelimit always;
			add_header RateLimit-Policy $weblimit_policy always;
			proxy_pass http://app;
		}
		location = /weblimit {
			internal;
			proxy_pass http://weblimit/v1/auth_request/api;
			proxy_pass_request_body off;
			proxy_set_header Content-Length "";
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Forwarded-Method $request_method;
			proxy_set_header X-Forwarded-Uri $request_uri;
			proxy_set_header X-Forwarded-Host $host;
			proxy_set_header Connection "";
		}
	}
}
`

// TestNginx prints what a request behind nginx costs: without a limiter, with the library in the
// application, and with nginx asking weblimitd.
func TestNginx(t *testing.T) {
	binary, err := exec.LookPath("nginx")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("nginx is not installed")
	}
	server := redistest.StartTCP(t)
	dir := child.Dir(t)
	socket := filepath.Join(dir, "s")
	limiter := startDaemon(t, "unix:"+socket, "--redis", "redis://"+server.Addr())
	var plain, limited string
	app := start(t, exec.Command(os.Args[0], "-app", server.Addr()), func(written string) bool {
		n, _ := fmt.Sscanf(written, "listening %s %s", &plain, &limited)
		return n == 2
	})
	addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	write(t, filepath.Join(dir, "nginx.conf"), strings.NewReplacer(
		"DIR", dir, "LIMITER", socket, "PLAIN", plain, "LIMITED", limited, "ADDR", addr).Replace(nginxFile))
	c := &http.Client{Transport: dialing("tcp", addr)}
	t.Cleanup(c.CloseIdleConnections)
	get := func(path string, headers bool) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
			if err != nil {
				return err
			}
			response, err := c.Do(r)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err == nil && (string(body) != "served" || headers != (response.Header.Get("RateLimit") != "")) {
				err = fmt.Errorf("%s %v: %s", response.Status, response.Header, body)
			}
			return err
		}
	}
	gateway := start(t, exec.Command(binary, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr"), func(string) bool {
		return get("/plain", false)(t.Context(), 0) == nil
	})
	all := []way{
		{"no limiter", 1, get("/plain", false), []process{gateway, app}},
		{"the library in the application", 1, get("/library", true), []process{gateway, app}},
		{"`auth_request` to weblimitd", 1, get("/gateway", true), []process{gateway, app, limiter.process}},
	}
	for _, w := range all {
		if err := w.ask(t.Context(), 0); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
	if !*measures || t.Failed() {
		return
	}
	redis := redisProcess(t, server)
	fmt.Println("\n| behind nginx | clients | requests/s | beside no limiter | p50 | p99 | CPU of nginx, application, limiter and Redis |\n| --- | --- | --- | --- | --- | --- | --- |")
	for _, callers := range []int{1, 16, 64} {
		found := make([][]sample, len(all))
		for round := range *rounds {
			for i := range all {
				at := (i + round) % len(all)
				found[at] = append(found[at], measure(t, &all[at], redis, callers, 1))
			}
		}
		for i, w := range all {
			rate, _, _ := middle(found[i], func(s sample) float64 { return s.rate })
			p50, _, _ := middle(found[i], func(s sample) time.Duration { return s.p50 })
			p99, _, _ := middle(found[i], func(s sample) time.Duration { return s.p99 })
			sum, low, high := middle(found[i], func(s sample) float64 { return s.service + s.redis })
			fmt.Printf("| %s | %d | %.0f | %s | %s | %s | %.0f (%.0f–%.0f) |\n", w.name, callers, rate,
				ratio(found[0], found[i]), milliseconds(p50), milliseconds(p99), sum, low, high)
		}
	}
}
