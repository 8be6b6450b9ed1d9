package redistest

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// proxied starts a server and a proxy to it, with one client that goes through and never
// tries again, and one that does not go through.
func proxied(t *testing.T) (p *Proxy, through, direct *redis.Client) {
	t.Helper()
	s := Start(t)
	p = StartProxy(t, s)
	return p, p.ClientWith(t, &redis.Options{MaxRetries: -1, ReadTimeout: commandTimeout}), s.Client(t)
}

func TestProxyPassesEverythingOn(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Server{"unix": Start(t), "tcp": StartTCP(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, p := t.Context(), StartProxy(t, s)
			c := p.ClientWith(t, &redis.Options{MaxRetries: -1, ReadTimeout: commandTimeout}) // it connects once
			large := string(make([]byte, 300_000))
			pipe := c.Pipeline()
			pipe.Set(ctx, "k", large, 0)
			get := pipe.Get(ctx, "k")
			pipe.HSet(ctx, "h", "a", "1", "b", "2")
			all := pipe.HGetAll(ctx, "h")
			pipe.SAdd(ctx, "s", "m")
			members := pipe.SMembers(ctx, "s")
			script := pipe.Eval(ctx, "return {1, 'two', {3, false}, redis.status_reply('ok')}", nil)
			if _, err := pipe.Exec(ctx); err != nil {
				t.Fatal(err)
			}
			if get.Val() != large || len(all.Val()) != 2 || len(members.Val()) != 1 || len(script.Val().([]any)) != 4 {
				t.Errorf("GET %d bytes, %v, %v, %v", len(get.Val()), all.Val(), members.Val(), script.Val())
			}
			if err := c.Get(ctx, "none").Err(); !errors.Is(err, redis.Nil) {
				t.Errorf("GET of no key: %v", err)
			}
			if got := p.Connections(); got != 1 {
				t.Errorf("%d connections, want 1", got)
			}
		})
	}
}

func TestProxyCutsRepliesOfRequestsThatMatch(t *testing.T) {
	t.Parallel()
	p, through, direct := proxied(t)
	ctx := t.Context()
	p.Match("eval", "INCR")
	p.CutReplies(2)
	for i := int64(1); i <= 4; i++ {
		_, err := through.Incr(ctx, "n").Result()
		if wantCut := i <= 2; wantCut != errors.Is(err, io.EOF) || wantCut != (err != nil) {
			t.Errorf("INCR %d: %v", i, err)
		}
		if got, _ := direct.Get(ctx, "n").Int64(); got != i {
			t.Errorf("the server counted %d, want %d: what it was asked it must do", got, i)
		}
		if err := through.Ping(ctx).Err(); err != nil {
			t.Errorf("PING does not match: %v", err)
		}
	}
	if got := p.RepliesCut(); got != 2 {
		t.Errorf("RepliesCut = %d, want 2", got)
	}
}

func TestProxyCutsInTheMiddle(t *testing.T) {
	t.Parallel()
	p, _, _ := proxied(t)
	for after, want := range map[int]string{0: "", 3: "+PO", 7: "+PONG\r", 1000: "+PONG\r"} {
		p.CutAfter(after)
		p.CutReplies(1)
		conn := dial(t, "tcp", p.Addr())
		// A request in pieces is still one request.
		for _, piece := range []string{"*1\r\n$4\r\nPI", "NG\r\n"} {
			if _, err := conn.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := io.ReadAll(conn); string(got) != want || err != nil {
			t.Errorf("CutAfter(%d): %q, %v, want %q", after, got, err, want)
		}
	}
}

func TestProxyDropsRequestsBeforeTheServerSeesThem(t *testing.T) {
	t.Parallel()
	p, through, direct := proxied(t)
	ctx := t.Context()
	p.Match("incr")
	p.DropRequests(2)
	for i := range 3 {
		err := through.Incr(ctx, "n").Err()
		if dropped := i < 2; dropped != (err != nil) {
			t.Errorf("INCR %d: %v", i, err)
		}
	}
	if got, err := direct.Get(ctx, "n").Int64(); got != 1 || err != nil {
		t.Errorf("the server counted %d, %v, want 1", got, err)
	}
	if got := p.RequestsDropped(); got != 2 {
		t.Errorf("RequestsDropped = %d, want 2", got)
	}
}

func TestProxyDelaysReplies(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	p, through, _ := proxied(t)
	ctx := t.Context()
	if err := through.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	p.Delay(delay)
	began := time.Now()
	pipe := through.Pipeline()
	const pings = 1000 // one by one they would take minutes
	for range pings {
		pipe.Ping(ctx)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < delay || took > commandTimeout {
		t.Errorf("a pipeline of %d took %v, want about %v", pings, took, delay)
	}
	p.Delay(0)
	if err := through.Ping(ctx).Err(); err != nil {
		t.Error(err)
	}
}

func TestProxyStopsWhileItHoldsAReplyBack(t *testing.T) {
	t.Parallel()
	began := time.Now()
	t.Run("a test that ends", func(t *testing.T) {
		s := Start(t)
		p := StartProxy(t, s)
		p.Delay(time.Hour)
		conn := dial(t, "tcp", p.Addr())
		if _, err := conn.Write([]byte("INCR n\r\n")); err != nil {
			t.Fatal(err)
		}
		if err := await("the request", func() error { return s.Client(t).Get(t.Context(), "n").Err() }); err != nil {
			t.Fatal(err)
		}
	})
	if took := time.Since(began); took > awaitTimeout {
		t.Errorf("it took %v", took)
	}
}

func TestProxyBlackholeSwallowsBothWays(t *testing.T) {
	t.Parallel()
	p, _, direct := proxied(t)
	ctx := t.Context()
	c := p.ClientWith(t, &redis.Options{MaxRetries: -1, ReadTimeout: 50 * time.Millisecond})
	conn := dial(t, "tcp", p.Addr())
	if got := exchange(t, conn, "PING\r\n", len("+PONG\r\n")); got != "+PONG\r\n" {
		t.Fatalf("PING answered %q", got)
	}
	p.Blackhole(true)
	if err := c.Incr(ctx, "n").Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("INCR on a new connection: %v, want a timeout", err)
	}
	silent := func(when string) {
		t.Helper()
		if _, err := conn.Write([]byte("INCR n\r\n")); err != nil {
			t.Fatal(err)
		}
		if err := await("the bytes to be swallowed", func() error { return swallowed(p, conn) }); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v, want a timeout", when, err)
		}
	}
	silent("an old connection")
	p.Blackhole(false)
	silent("a connection that lost something")
	if err := direct.Get(ctx, "n").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("the server was asked: %v", err)
	}
	if err := p.Client(t).Incr(ctx, "n").Err(); err != nil {
		t.Errorf("a connection opened afterwards: %v", err)
	}
}

// swallowed returns nil once bytes of a connection of a client have been lost.
func swallowed(p *Proxy, client net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if c.client.RemoteAddr().String() == client.LocalAddr().String() && c.silent.Load() {
			return nil
		}
	}
	return errors.New("none is")
}

func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	p, through, _ := proxied(t)
	open := dial(t, "tcp", p.Addr())
	if got := exchange(t, open, "PING\r\n", len("+PONG\r\n")); got != "+PONG\r\n" {
		t.Fatalf("PING answered %q", got)
	}
	p.Refuse(true)
	for name, conn := range map[string]net.Conn{"open": open, "new": dial(t, "tcp", p.Addr())} {
		if b, err := io.ReadAll(conn); len(b) != 0 || err != nil {
			t.Errorf("an %s connection read %q, %v, want its end", name, b, err)
		}
	}
	if err := through.Ping(t.Context()).Err(); err == nil {
		t.Error("a client got through")
	}
	p.Refuse(false)
	if err := through.Ping(t.Context()).Err(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestProxyClosesWhenTheServerIsGone(t *testing.T) {
	t.Parallel()
	s := Start(t)
	p := StartProxy(t, s)
	conn := dial(t, "tcp", p.Addr())
	if got := exchange(t, conn, "PING\r\n", len("+PONG\r\n")); got != "+PONG\r\n" {
		t.Fatalf("PING answered %q", got)
	}
	s.Kill()
	for name, conn := range map[string]net.Conn{"open": conn, "new": dial(t, "tcp", p.Addr())} {
		if b, err := io.ReadAll(conn); len(b) != 0 || err != nil {
			t.Errorf("an %s connection read %q, %v, want its end", name, b, err)
		}
	}
	s.Restart(t)
	if err := p.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestProxyLeavesNothing(t *testing.T) {
	t.Parallel()
	requireBinary(t)
	var p *Proxy
	t.Run("a test that ends", func(t *testing.T) {
		p = StartProxy(t, Start(t))
		dial(t, "tcp", p.Addr())
		if err := p.Client(t).Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	})
	p.running.Wait() // all its goroutines are counted
	if n := len(p.conns); n != 0 {
		t.Errorf("%d connections left", n)
	}
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		_ = conn.Close()
		t.Error("the port still accepts")
	}
}
