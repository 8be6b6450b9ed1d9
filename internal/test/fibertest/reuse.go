package fibertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Fiber uses its contexts and buffers again for the next request, so all that a
// limiter keeps is copied: keys, decisions and the context that holds one. Many
// clients send many keys of many lengths, each over one connection; afterwards
// each key is still taken and each decision still says what it said.
func (s suite[C]) reuse(t *testing.T) {
	t.Parallel()
	const clients, requests = 8, 60
	type kept struct {
		client, request int
		decision        core.Decision
		ctx             context.Context
		said            string
	}
	var mu sync.Mutex
	var all []kept

	app := s.app()
	app.Use("", func(c C) error {
		c.Locals("user", c.Get("X-User")) // Fiber's buffer, as an application might
		return c.Next()
	})
	app.Get("/:client/:request", s.f.Limit(core.NewMemory(),
		core.PerHour(1).By(keyfuncs.Header("X-Tenant")).Named("header"),
		core.PerHour(1).By(keyfuncs.User("user")).Named("user"),
		core.PerHour(1).By(keyfuncs.Cookie("sid")).Named("cookie"),
		core.PerHour(1).By(keyfuncs.APIKey("?key")).Named("query"),
		core.PerHour(clients*requests*2).By(keyfuncs.Route()).Named("route"),
	), func(c C) error {
		d, ok := s.f.FromContext(c)
		if !ok {
			return s.f.Error(http.StatusTeapot, "")
		}
		client, _ := strconv.Atoi(c.Params("client"))
		request, _ := strconv.Atoi(c.Params("request"))
		mu.Lock()
		defer mu.Unlock()
		all = append(all, kept{client, request, d, s.f.Context(c), says(&d)})
		return nil
	})
	address := listen(t, app)

	// send sends all requests of a client, and returns what they were answered.
	send := func(client int) (codes []int) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Error(err)
			return nil
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for i := range requests {
			id := fmt.Sprintf("%d-%d-%s", client, i, strings.Repeat(string(rune('a'+i%26)), (i*37+client)%300))
			fmt.Fprintf(c, "GET /%d/%d?key=%s HTTP/1.1\r\nHost: x\r\nX-Tenant: t%s\r\nX-User: u%s\r\nCookie: sid=s%s\r\n\r\n", client, i, id, id, id, id)
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Error(err)
				return codes
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			codes = append(codes, res.StatusCode)
		}
		return codes
	}
	for round, want := range []int{200, 429} {
		var wg sync.WaitGroup
		for client := range clients {
			wg.Go(func() {
				for i, code := range send(client) {
					check.Equal(t, fmt.Sprintf("round %d, client %d, request %d", round+1, client, i), code, want)
				}
			})
		}
		wg.Wait()
	}

	mu.Lock()
	defer mu.Unlock()
	must.Equal(t, "requests reached the handler", len(all), clients*requests)
	for _, k := range all {
		if now := says(&k.decision); now != k.said {
			t.Errorf("client %d, request %d: the decision said %s, and now %s", k.client, k.request, k.said, now)
		}
		d, ok := core.FromContext(k.ctx)
		if now := says(&d); !ok || now != k.said {
			t.Errorf("client %d, request %d: the decision said %s, its context says %s", k.client, k.request, k.said, now)
		}
	}
}

// says is all that a decision says.
func says(d *core.Decision) string {
	s := fmt.Sprint(d.LogValue())
	for _, r := range d.Results() {
		s += fmt.Sprint(" ", *r.Rule, r.Result)
	}
	return s
}
