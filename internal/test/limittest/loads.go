package limittest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// loads are scenarios of limits that shrink while the service is overloaded.
var loads = []scenario{
	{"a limit shrinks while many clients overload the service, and not for one of many connections", func(e *env) {
		const requests = 1000
		for _, tt := range []struct {
			who     string
			clients int
			policy  string
		}{
			{"one client", 1, `"service";q=10;w=86400`},
			{"many clients", requests, `"service";q=7;w=86400`},
		} {
			load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 100})
			entered, goOn := make(chan struct{}, requests), make(chan struct{})
			s := e.serve(App{
				Layers: []Layer{{Limiter: e.limiter(core.PerDay(10).FixedWindow().By(keyfuncs.ClientIP()).Named("service").
					When(keyfuncs.Methods("GET")).Scale(load.Factor))}, {Load: load}},
				Routes: []Route{{Method: "GET", Path: "/", Handle: hello}, {Method: "POST", Path: "/slow", Handle: func(c Call) {
					entered <- struct{}{}
					<-goOn
					hello(c)
				}}},
			})
			var group sync.WaitGroup
			for i := range requests {
				peer := i % tt.clients
				group.Go(func() { s.do("POST", "/slow", from(fmt.Sprintf("198.18.%d.%d:%d", peer/250, peer%250, 1024+i))) })
			}
			for range requests {
				<-entered
			}
			equal(e, "requests of "+tt.who+" in flight", load.InFlight(), requests)
			r := s.get("/")
			equal(e, "RateLimit-Policy with 1000 requests of "+tt.who, e.only(r, "Ratelimit-Policy"), tt.policy)
			close(goOn)
			group.Wait()
			equal(e, "requests in flight afterwards", load.InFlight(), 0)
		}
	}},
	{"clients that trickle their bodies or read slowly are no load", func(e *env) {
		const clients = 20
		load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 1, Slow: 200 * time.Millisecond, Clients: 1})
		slots := e.limiter(core.Concurrent(clients).By(keyfuncs.Everyone()).Named("running").When(keyfuncs.Methods("POST"))) // around load
		answer := strings.Repeat("x", 8<<20)                                                                                 // more than the system buffers for a client
		var group sync.WaitGroup
		group.Add(clients)
		s := e.serve(App{
			Layers: []Layer{{Limiter: slots}, {Load: load}, {Limiter: e.limiter(core.PerDay(10).FixedWindow().By(keyfuncs.Everyone()).Named("service").
				When(keyfuncs.Methods("GET")).Scale(load.Factor))}},
			Routes: []Route{
				{Method: "GET", Path: "/", Handle: hello},
				{Method: "POST", Path: "/", Handle: func(c Call) {
					body, err := c.Body()
					if err != nil || len(body) != 6 {
						e.Errorf("read %q, error %v", body, err)
					}
					c.Reply(http.StatusOK, answer)
				}},
			},
		})
		address := strings.TrimPrefix(s.server.Listen(e), "http://")
		goOn, hangUp := make(chan struct{}), make(chan struct{})
		for range clients {
			go func() {
				defer group.Done()
				trickle(e, address, goOn, hangUp)
			}()
		}
		waiting := func(what string) {
			e.Helper()
			time.Sleep(300 * time.Millisecond) // after which all of them would count as slow
			e.eventually("nobody is at work while clients "+what, func() bool { return load.InFlight() == 0 }, func() any { return load.InFlight() })
		}
		waiting("send")
		close(goOn)
		waiting("do not read")
		close(hangUp)
		group.Wait()
		free := func() int64 { return e.left(slots) }
		e.eventually("all have been measured", func() bool { return free() == clients }, func() any { return free() })
		equal(e, "the factor", load.Factor(e.Context()), 1)
		equal(e, "RateLimit-Policy", e.only(s.get("/"), "Ratelimit-Policy"), `"service";q=10;w=86400`)
	}},
	{"a handler that is measured can stream, take over the connection and panic", func(e *env) {
		load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 1})
		goOn := make(chan struct{})
		s := e.serve(App{Layers: []Layer{{Load: load}}, Routes: []Route{
			{Method: "GET", Path: "/stream", Handle: func(c Call) {
				n := 0
				c.Stream(func() (string, bool) {
					if n++; n == 2 {
						<-goOn
					}
					return "line\n", n <= 2
				})
			}},
			{Method: "GET", Path: "/hijack", Handle: Call.Hijack},
			{Method: "GET", Path: "/panic", Handle: func(Call) { panic("at work") }},
		}})
		release := sync.OnceFunc(func() { close(goOn) })
		base, client := s.server.Listen(e), e.client()
		e.Cleanup(release)
		res, err := client.Get(base + "/stream")
		if err != nil {
			e.Fatal(err)
		}
		defer res.Body.Close()
		line := make([]byte, 5)
		if _, err := io.ReadFull(res.Body, line); err != nil || string(line) != "line\n" {
			e.Errorf("the first line: %q, error %v", line, err)
		}
		release()
		if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "line\n" {
			e.Errorf("the rest: %q, error %v", rest, err)
		}
		equal(e, "the body of the hijacked one", e.fetch(client, "GET", base+"/hijack").body, "hijacked")
		equal(e, "the status after a panic", e.fetch(client, "GET", base+"/panic").status, http.StatusInternalServerError)
		e.eventually("nobody is at work", func() bool { return load.InFlight() == 0 }, func() any { return load.InFlight() })
	}},
}

// trickle sends half of a body, and the other half when goOn is closed. It then reads the
// start of the response and keeps the connection open until hangUp is closed.
func trickle(e *env, address string, goOn, hangUp <-chan struct{}) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		e.Error(err)
		return
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	send := func(text string) {
		if _, err := io.WriteString(conn, text); err != nil {
			e.Error(err)
		}
	}
	send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc")
	<-goOn
	send("def")
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 200" {
		e.Errorf("got %q, error %v", status, err)
	}
	<-hangUp
}
