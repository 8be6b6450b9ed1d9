package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// lateConns returns the two ends of a connection, the first one as stores use it.
func lateConns(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ours, err = NewDialer(&redis.Options{})(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	if theirs, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}

// A deadline that passes before the process looks at the connection says nothing of the server.
func TestAReplyThatLiesInTheSocketIsRead(t *testing.T) {
	t.Parallel()
	ours, theirs := lateConns(t)
	deadline := time.Now()
	for !time.Now().Before(deadline) { // one that has passed when it is set is another matter
		deadline = time.Now().Add(20 * time.Millisecond)
		must.OK(t, ours.SetDeadline(deadline))
	}
	must.Do(theirs.Write([]byte("reply")))(t)
	time.Sleep(time.Until(deadline) + 4*lateAfter) // as if there had been no processor
	got := make([]byte, 10)
	if n, err := ours.Read(got); err != nil || string(got[:n]) != "reply" {
		t.Errorf("read %q, %v", got[:n], err)
	}
	if n, err := ours.Write([]byte("request")); err != nil || n != len("request") {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	if n, err := theirs.Read(got); err != nil || string(got[:n]) != "request" {
		t.Errorf("the server read %q, %v", got[:n], err)
	}
}

// A server that is silent is given up, whether the process was late or not.
func TestASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ deadline, late time.Duration }{
		"in time":                {50 * time.Millisecond, 0},
		"late":                   {50 * time.Millisecond, 200 * time.Millisecond},
		"the deadline is passed": {-time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, _ := lateConns(t)
			began := time.Now()
			must.OK(t, ours.SetReadDeadline(began.Add(tt.deadline)))
			time.Sleep(tt.late) // as if there had been no processor
			_, err := ours.Read(make([]byte, 1))
			check.Is(t, "read", err, os.ErrDeadlineExceeded)
			took, most := time.Since(began), max(tt.deadline, tt.late)+maxLooks*maxExtension
			if most += slack; took < tt.deadline || took > most {
				t.Errorf("given up after %v, want %v at most", took, most)
			}
		})
	}
}

// go-redis finds connections that the server has closed through the system's connection.
func TestALateConnectionIsCheckedByItsClient(t *testing.T) {
	t.Parallel()
	ours, _ := lateConns(t)
	if _, ok := sysConn(ours); !ok {
		t.Errorf("a %T has no SyscallConn", ours)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	if _, ok := sysConn(&lateConn{Conn: ours}); ok {
		t.Error("a pipe has a SyscallConn")
	}
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// A dialer of the options is used, by clients of each kind.
func TestADialerServesEachKindOfClient(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	const addr = "127.0.0.1:1"
	for name, open := range map[string]func(dialer) redis.UniversalClient{
		"one server": func(dial dialer) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addr, Dialer: dial, MaxRetries: -1})
		},
		"Sentinel": func(dial dialer) redis.UniversalClient {
			return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "limits", SentinelAddrs: []string{addr}, Dialer: dial, MaxRetries: -1})
		},
		"Cluster": func(dial dialer) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, Dialer: dial, MaxRedirects: -1})
		},
		"Ring": func(dial dialer) redis.UniversalClient {
			return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": addr}, Dialer: dial, MaxRetries: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dialed atomic.Int64
			client := open(NewDialer(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
				dialed.Add(1)
				return nil, refused
			}}))
			defer client.Close()
			if err := client.Ping(t.Context()).Err(); err == nil || dialed.Load() == 0 {
				t.Errorf("dialed %d times, %v", dialed.Load(), err)
			}
		})
	}
}

// Without a dialer in the options, it connects as go-redis does: with TLS, and for no longer than they say.
func TestADialerKeepsToItsOptions(t *testing.T) {
	t.Parallel()
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	dial := NewDialer(&redis.Options{DialTimeout: 50 * time.Millisecond, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}})
	var timeout net.Error
	if _, err := dial(t.Context(), "tcp", silent.Addr().String()); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a handshake that nobody answers ends with %v, want a time-out", err)
	}
	must.OK(t, must.Get(silent.Accept())(t).Close())

	dialed := make(chan error, 1)
	go func() {
		_, err := NewDialer(&redis.Options{DialTimeout: time.Hour, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}})(context.Background(), "tcp", silent.Addr().String())
		dialed <- err
	}()
	server := must.Get(silent.Accept())(t)
	const handshake = 22 // the type of the first record of TLS
	first := make([]byte, 1)
	if _, err := server.Read(first); err != nil || first[0] != handshake {
		t.Errorf("the first byte is %d, %v, want %d", first[0], err, handshake)
	}
	must.OK(t, server.Close())
	if err := <-dialed; err == nil {
		t.Error("a handshake that nobody answers has succeeded")
	}
}
