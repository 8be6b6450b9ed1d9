package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// connections knows what the connections of an HTTP server do. http.Server.Shutdown drops requests that
// arrive on connections it has accepted just before; so the server first takes no more connections,
// serves those that it has, and is shut down when they are silent.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]connState // Guarded by mu.
}

type connState struct {
	state http.ConnState
	since time.Time
}

// note is for http.Server.ConnState.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.open, conn)
		return
	}
	if c.open == nil {
		c.open = map[net.Conn]connState{}
	}
	c.open[conn] = connState{state, time.Now()}
}

// How long a server without a listener waits for requests on connections that it has.
const (
	lingerFor = 300 * time.Millisecond // on idle ones, which callers may use until they hear of the end
	newFor    = time.Second            // on those that have not had a request
)

// left returns how many connections are open, and how many of them have a request or may soon have one.
func (c *connections) left() (open, busy int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.open {
		if s.state == http.StateActive || s.state == http.StateNew && time.Since(s.since) < newFor {
			busy++
		}
	}
	return len(c.open), busy
}

// silent waits until no connection has a request, or until ctx ends. It waits 20 ms if there is none at all: one that was
// accepted just before the listener was closed is noted a moment later.
func (c *connections) silent(ctx context.Context) {
	began := time.Now()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		open, busy := c.left()
		if open == 0 && time.Since(began) > 20*time.Millisecond || busy == 0 && time.Since(began) > lingerFor {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
