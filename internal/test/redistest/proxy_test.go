package redistest

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
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
			must.Do(pipe.Exec(ctx))(t)
			if get.Val() != large || len(all.Val()) != 2 || len(members.Val()) != 1 || len(script.Val().([]any)) != 4 {
				t.Errorf("GET %d bytes, %v, %v, %v", len(get.Val()), all.Val(), members.Val(), script.Val())
			}
			check.Is(t, "GET of no key", c.Get(ctx, "none").Err(), redis.Nil)
			check.Equal(t, "connections", p.Connections(), 1)
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
	check.Equal(t, "RepliesCut", p.RepliesCut(), 2)
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
			must.Do(conn.Write([]byte(piece)))(t)
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
	check.Equal(t, "RequestsDropped", p.RequestsDropped(), 2)
}

func TestProxyDelaysReplies(t *testing.T) {
	t.Parallel()
	const delay = 200 * time.Millisecond
	p, through, _ := proxied(t)
	ctx := t.Context()
	must.OK(t, through.Ping(ctx).Err())
	p.Delay(delay)
	began := time.Now()
	pipe := through.Pipeline()
	const pings = 1000 // one by one they would take minutes
	for range pings {
		pipe.Ping(ctx)
	}
	must.Do(pipe.Exec(ctx))(t)
	if took := time.Since(began); took < delay || took > commandTimeout {
		t.Errorf("a pipeline of %d took %v, want about %v", pings, took, delay)
	}
	p.Delay(0)
	check.OK(t, through.Ping(ctx).Err())
}

func TestProxyStopsWhileItHoldsAReplyBack(t *testing.T) {
	t.Parallel()
	began := time.Now()
	t.Run("a test that ends", func(t *testing.T) {
		s := Start(t)
		p := StartProxy(t, s)
		p.Delay(time.Hour)
		conn := dial(t, "tcp", p.Addr())
		must.Do(conn.Write([]byte("INCR n\r\n")))(t)
		must.OK(t, await("the request", func() error { return s.Client(t).Get(t.Context(), "n").Err() }))
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
	must.Equal(t, "PING answered", exchange(t, conn, "PING\r\n", len("+PONG\r\n")), "+PONG\r\n")
	p.Blackhole(true)
	if err := c.Incr(ctx, "n").Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("INCR on a new connection: %v, want a timeout", err)
	}
	silent := func(when string) {
		t.Helper()
		must.Do(conn.Write([]byte("INCR n\r\n")))(t)
		must.OK(t, await("the bytes to be swallowed", func() error { return swallowed(p, conn) }))
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v, want a timeout", when, err)
		}
	}
	silent("an old connection")
	p.Blackhole(false)
	silent("a connection that lost something")
	check.Is(t, "the server was asked", direct.Get(ctx, "n").Err(), redis.Nil)
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
	must.Equal(t, "PING answered", exchange(t, open, "PING\r\n", len("+PONG\r\n")), "+PONG\r\n")
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
	must.Equal(t, "PING answered", exchange(t, conn, "PING\r\n", len("+PONG\r\n")), "+PONG\r\n")
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
		must.OK(t, p.Client(t).Ping(t.Context()).Err())
	})
	p.running.Wait() // all its goroutines are counted
	check.Equal(t, "connections left", len(p.conns), 0)
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		_ = conn.Close()
		t.Error("the port still accepts")
	}
}
