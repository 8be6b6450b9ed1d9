package mcp

import (
	"context"
	"fmt"
	"net/http"

	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/llmlimit/internal/peek"
)

const (
	defaultPeek = 128 << 10
	maxPeek     = 64 << 20
	maxTools    = 10_000
)

// Other is the tool of requests for tools that nobody knows, and of requests in doubt. So made-up names share one key.
const Other = "other"

// Config configures [Tools].
type Config struct {
	// Tools are the names of the server's tools, of 1 to 128 bytes. A request for another one has the tool Other.
	Tools []string

	// Peek is how many bytes of a request's body are read, and kept until they are passed on. Defaults to 128 KiB; 64 MiB
	// is the most.
	Peek int

	// Status is the status of a denial that answers a call. Defaults to 200: the libraries of the protocol give the
	// error of JSON-RPC to their program only then, and take all others for a failure of the connection.
	Status int
}

// Tools reads which tool a request calls. It is safe for concurrent use.
type Tools struct {
	config Config
	known  map[string]bool
}

// New returns a reader of requests, or what is wrong with its configuration.
func New(config Config) (*Tools, error) {
	if config.Peek == 0 {
		config.Peek = defaultPeek
	}
	if config.Status == 0 {
		config.Status = http.StatusOK
	}
	switch {
	case config.Peek < 1 || config.Peek > maxPeek:
		return nil, fmt.Errorf("weblimit: mcp: Config.Peek must be from 1 to %d, got %d", maxPeek, config.Peek)
	case config.Status != http.StatusOK && (config.Status < 400 || config.Status > 599):
		return nil, fmt.Errorf("weblimit: mcp: Config.Status must be 200, or from 400 to 599, got %d", config.Status)
	case len(config.Tools) > maxTools:
		return nil, fmt.Errorf("weblimit: mcp: Config.Tools has more than %d names", maxTools)
	}
	t := &Tools{config: config, known: make(map[string]bool, len(config.Tools))}
	for _, name := range config.Tools {
		if name == "" || len(name) > maxName || name == Other || t.known[name] {
			return nil, fmt.Errorf("weblimit: mcp: Config.Tools: %.40q is empty, longer than %d bytes, taken or there twice", name, maxName)
		}
		t.known[name] = true
	}
	return t, nil
}

// callKey is the key of a request's call in a context.
type callKey struct{ tools *Tools }

// Read returns a handler that reads each request by [Tools.ReadRequest], for next. Put it around the limits.
func (t *Tools) Read(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, t.ReadRequest(r)) })
}

// ReadRequest reads which tool a request calls, and returns a copy of the request that knows it. It waits for the body,
// which the next handler reads from its beginning.
func (t *Tools) ReadRequest(r *http.Request) *http.Request {
	if _, ok := r.Context().Value(callKey{t}).(*call); ok {
		return r
	}
	c := &call{}
	var b *peek.Body
	if r.Body != nil && r.Body != http.NoBody {
		b = peek.Begin(r.Body, t.config.Peek)
		c.read(b, r.Header)
	}
	c.known = t.known[c.tool]
	r = r.WithContext(context.WithValue(r.Context(), callKey{t}, c))
	if b != nil {
		r.Body = b
	}
	return r
}

// doubtful is a request that ReadRequest has not read.
var doubtful = &call{calls: 1, doubt: true}

func (t *Tools) callOf(r keyfuncs.Request) *call {
	if c, ok := r.Value(callKey{t}).(*call); ok {
		return c
	}
	return doubtful
}

// Tool returns the key function of the tool: its name if it is one of Config.Tools, and else [Other]. Requests that call
// no tool have Other, too: see [Tools.Calls].
func (t *Tools) Tool() keyfuncs.Func {
	return keyfuncs.Custom("tool", func(r keyfuncs.Request) string {
		if c := t.callOf(r); c.known && !c.doubt {
			return c.tool
		}
		return Other
	})
}

// Calls returns a condition that holds for requests that call one of these tools, or any tool if none is named. It holds
// for requests in doubt, and for those that [Tools.ReadRequest] has not read; so it is for When, and not for an
// exemption. It panics if a name is not in Config.Tools.
func (t *Tools) Calls(names ...string) keyfuncs.Condition {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		if !t.known[name] && name != Other {
			panic("weblimit: mcp: Calls: Config.Tools has no tool " + name)
		}
		set[name] = true
	}
	return keyfuncs.Matches(func(r keyfuncs.Request) bool {
		c := t.callOf(r)
		switch {
		case c.doubt:
			return true
		case c.calls == 0:
			return false
		}
		return len(set) == 0 || set[c.tool] || !c.known && set[Other]
	})
}

// Cost returns how many tools a request calls, for core.Limit.CostBy: 1, and for a batch as many as it has requests.
func (t *Tools) Cost(r keyfuncs.Request) int64 { return max(t.callOf(r).calls, 1) }
