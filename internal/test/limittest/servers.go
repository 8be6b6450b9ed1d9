package limittest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// client returns a new client, so that scenarios share no connections.
func (e *env) client() *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}
	e.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// clientHTTP2 returns a client that speaks only HTTP/2 without TLS.
func (e *env) clientHTTP2() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	e.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func (e *env) fetch(client *http.Client, method, url string, options ...option) response {
	e.Helper()
	r := must.Get(http.NewRequestWithContext(e.Context(), method, url, http.NoBody))(e)
	for _, o := range options {
		r = o(r)
	}
	res := must.Get(client.Do(r))(e)
	defer res.Body.Close()
	return e.read(res)
}

// servers are scenarios on a listener, with connections, concurrency and clients that
// hang up.
var servers = []scenario{
	{"of many requests at once exactly the quota passes", func(e *env) {
		const clients, requests, quota = 64, 8, 100
		var reached atomic.Int64
		s := e.serve(App{
			Layers: e.layer(
				core.PerDay(1_000_000).By(keyfuncs.Everyone()).Named("all"),
				core.PerDay(quota).By(keyfuncs.ClientIP()).Named("client"),
			),
			Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
				reached.Add(1)
				hello(c)
			}}},
		})
		base, client := s.server.Listen(e), e.client()
		var passed, denied, failed atomic.Int64
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for range requests {
					res, err := client.Get(base + "/")
					if err != nil {
						failed.Add(1)
						continue
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					switch res.StatusCode {
					case http.StatusOK:
						passed.Add(1)
					case http.StatusTooManyRequests:
						denied.Add(1)
					default:
						failed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		equal(e, "passed", passed.Load(), quota)
		equal(e, "reached the handler", reached.Load(), quota)
		equal(e, "denied", denied.Load(), clients*requests-quota)
		equal(e, "failed", failed.Load(), 0)
	}},
	{"clients that hang up are charged", func(e *env) {
		const hangups = 3
		entered, release := make(chan struct{}), make(chan struct{})
		s := e.serve(App{
			Layers: e.layer(core.PerHour(10).By(keyfuncs.Everyone()).Named("api").OnOutage(core.Deny)),
			Routes: []Route{
				{Method: "GET", Path: "/", Handle: hello},
				{Method: "GET", Path: "/slow", Handle: func(c Call) {
					entered <- struct{}{}
					<-release
					hello(c)
				}},
			},
		})
		base, client := s.server.Listen(e), e.client()
		var wg sync.WaitGroup
		for range hangups {
			ctx, hangUp := context.WithCancel(e.Context())
			r, err := http.NewRequestWithContext(ctx, "GET", base+"/slow", http.NoBody)
			if err != nil {
				e.Fatal(err)
			}
			wg.Go(func() {
				res, err := client.Do(r)
				if err == nil {
					_ = res.Body.Close()
					e.Error("a client that hung up got a response")
				}
			})
			<-entered
			hangUp()
		}
		wg.Wait()
		close(release)
		r := e.fetch(client, "GET", base+"/")
		equal(e, "status", r.status, http.StatusOK)
		e.remaining("after the hang-ups", r, "api", 10-hangups-1)
	}},
	{"a streaming handler has the headers from its first byte", func(e *env) {
		goOn := make(chan struct{})
		s := e.serve(App{
			Layers: e.layer(core.PerHour(5).By(keyfuncs.Everyone()).Named("api")),
			Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
				n := 0
				c.Stream(func() (string, bool) {
					n++
					if n == 2 {
						<-goOn
					}
					return "line\n", n <= 2
				})
			}}},
		})
		release := sync.OnceFunc(func() { close(goOn) })
		base := s.server.Listen(e)
		e.Cleanup(release) // before the server is closed, which may wait for its handlers
		res, err := e.client().Get(base + "/")
		if err != nil {
			e.Fatal(err)
		}
		defer res.Body.Close()
		equal(e, "RateLimit-Policy", res.Header.Get("RateLimit-Policy"), `"api";q=5;w=3600`)
		equal(e, "RateLimit", res.Header.Get("RateLimit"), `"api";r=4;t=2880`)
		body := bufio.NewReader(res.Body)
		line, err := body.ReadString('\n')
		if err != nil || line != "line\n" {
			e.Fatalf("first line: %q, %v", line, err)
		}
		release()
		rest, err := io.ReadAll(body)
		if err != nil || string(rest) != "line\n" {
			e.Errorf("the rest: %q, %v", rest, err)
		}
		equal(e, "trailers", len(res.Trailer), 0)
	}},
	{"a key of a megabyte and one that is no UTF-8 arrive over the network", func(e *env) {
		s := e.serve(App{LargeHeaders: true, Layers: e.layer(core.PerHour(1).By(keyfuncs.Header("X-Tenant")))})
		base, client := s.server.Listen(e), e.client()
		for _, key := range []string{strings.Repeat("x", 1<<20), "\xff\xfe\x80", "é"} {
			e.passes("first", e.fetch(client, "GET", base+"/", with("X-Tenant", key)))
			e.denied("second", e.fetch(client, "GET", base+"/", with("X-Tenant", key)))
		}
	}},
	{"a denied request with a body leaves the connection in order", func(e *env) {
		s := e.serve(App{
			Layers: e.layer(core.PerHour(1).By(keyfuncs.Everyone())),
			Routes: []Route{{Method: "POST", Path: "/", Handle: hello}, {Method: "GET", Path: "/", Handle: hello}},
		})
		base, client := s.server.Listen(e), e.client()
		e.passes("first", e.fetch(client, "GET", base+"/"))
		for range 3 {
			res, err := client.Post(base+"/", "text/plain", strings.NewReader(strings.Repeat("x", 4096)))
			if err != nil {
				e.Fatal(err)
			}
			e.denied("POST", e.read(res))
			_ = res.Body.Close()
		}
	}},
}
