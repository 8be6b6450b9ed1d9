package redistest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Proxy is between clients and a server, and does to their connections what networks do. All
// settings may be changed at any time, also concurrently, and apply to all connections, also
// to open ones. It understands requests and replies, so a test can say exactly which one is
// lost. It does not understand subscriptions.
type Proxy struct {
	to       *Server
	listener net.Listener
	running  sync.WaitGroup // the goroutines of the proxy

	mu       sync.Mutex
	settings settings            // Guarded by mu.
	counts   counts              // Guarded by mu.
	conns    map[*proxyConn]bool // Guarded by mu.
	closed   bool                // Guarded by mu; final.
}

type settings struct {
	delay     time.Duration
	blackhole bool
	refuse    bool
	words     [][]byte // in lower case; requests with none of them are left alone
	cut       int      // replies still to cut
	cutAfter  int      // bytes let through of each
	drop      int      // requests still to drop
}

type counts struct{ connections, cut, dropped int64 }

// StartProxy starts a proxy to the server, on a port of 127.0.0.1, and stops it when the
// test ends. At first it passes everything on.
func StartProxy(tb testing.TB, to *Server) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	p := &Proxy{to: to, listener: l, conns: map[*proxyConn]bool{}}
	p.running.Go(p.accept)
	tb.Cleanup(p.stop)
	return p
}

// Addr returns the host:port for clients.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Client returns a new client of the server through the proxy, with go-redis's defaults,
// closed when the test ends.
func (p *Proxy) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return p.ClientWith(tb, &redis.Options{})
}

// ClientWith is [Proxy.Client] with the test's options. It sets the address.
func (p *Proxy) ClientWith(tb testing.TB, options *redis.Options) *redis.Client {
	tb.Helper()
	o := *options
	o.Network, o.Addr = "tcp", p.Addr()
	c := redis.NewClient(&o)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Delay holds each reply back for d. Replies to one pipeline are held back together. 0 ends
// it.
func (p *Proxy) Delay(d time.Duration) {
	p.set(func(s *settings) { s.delay = d })
}

// Blackhole swallows all bytes in both directions, while connections stay open and new ones
// are accepted. A connection that lost bytes stays silent after Blackhole(false), since its
// replies would no longer match its requests. Other connections work again.
func (p *Proxy) Blackhole(on bool) {
	p.set(func(s *settings) { s.blackhole = on })
}

// Refuse closes all connections, and new ones as soon as they are accepted.
func (p *Proxy) Refuse(on bool) {
	p.set(func(s *settings) { s.refuse = on })
	if !on {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// Match limits CutReplies and DropRequests to requests that contain one of the words, in
// upper or lower case, anywhere in their bytes. Without words, all requests match. A client
// sends HELLO and CLIENT SETINFO on each new connection, so tests about a script use
//
//	proxy.Match("evalsha", "eval")
func (p *Proxy) Match(words ...string) {
	var lower [][]byte
	for _, word := range words {
		lower = append(lower, bytes.ToLower([]byte(word)))
	}
	p.set(func(s *settings) { s.words = lower })
}

// CutReplies cuts the replies to the next n requests that match. The server does what it was
// asked, and then the connection is closed in the middle of the reply; see CutAfter. Later
// requests of the same pipeline are usually done as well, and their replies are lost.
func (p *Proxy) CutReplies(n int) {
	p.set(func(s *settings) { s.cut = n })
}

// CutAfter lets at most n bytes of a reply through before it is cut, and never all of them.
// Defaults to 0.
func (p *Proxy) CutAfter(n int) {
	p.set(func(s *settings) { s.cutAfter = n })
}

// DropRequests closes the connection instead of passing on the next n requests that match.
// Replies still under way on it are lost.
func (p *Proxy) DropRequests(n int) {
	p.set(func(s *settings) { s.drop = n })
}

// RepliesCut returns how many replies were cut.
func (p *Proxy) RepliesCut() int64 { return p.count().cut }

// RequestsDropped returns how many requests were dropped by DropRequests.
func (p *Proxy) RequestsDropped() int64 { return p.count().dropped }

// Connections returns how many connections were accepted, refused ones included.
func (p *Proxy) Connections() int64 { return p.count().connections }

func (p *Proxy) count() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

func (p *Proxy) countCut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.cut++
}

func (p *Proxy) set(change func(*settings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.settings)
}

func (p *Proxy) get() settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

// fate is what happens to a request.
type fate int

const (
	pass fate = iota
	drop
	cut // its reply
)

// judge decides what happens to one request, and counts it.
func (p *Proxy) judge(request []byte) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.settings
	switch {
	case (s.drop <= 0 && s.cut <= 0) || !matches(request, s.words):
		return pass
	case s.drop > 0:
		s.drop--
		p.counts.dropped++
		return drop
	default:
		s.cut--
		return cut
	}
}

func matches(request []byte, words [][]byte) bool {
	lower := bytes.ToLower(request)
	for _, word := range words {
		if bytes.Contains(lower, word) {
			return true
		}
	}
	return len(words) == 0
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.open(client)
	}
}

// open starts serving a client, unless it is refused.
func (p *Proxy) open(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.connections++
	if p.settings.refuse || p.closed {
		_ = client.Close()
		return
	}
	c := &proxyConn{proxy: p, client: client, done: make(chan struct{})}
	p.conns[c] = true
	p.running.Go(c.serve)
}

func (p *Proxy) forget(c *proxyConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// stop closes everything and waits for the goroutines.
func (p *Proxy) stop() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close()
	for c := range p.conns {
		c.close()
	}
	p.mu.Unlock()
	p.running.Wait()
}
