package redistest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// impatient is a plain client that shows the first answer.
func impatient(t *testing.T, s *Server) *redis.Client {
	t.Helper()
	return s.ClientWith(t, &redis.Options{MaxRetries: -1, ReadTimeout: commandTimeout})
}

// wantRefusal fails unless err is what Redis says with that code.
func wantRefusal(t *testing.T, what string, err error, code string) {
	t.Helper()
	var refusal redis.Error
	if !errors.As(err, &refusal) || !strings.HasPrefix(refusal.Error(), code+" ") {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func TestRefusalsBeginAndEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                string
		begin               func(s *Server, t *testing.T) (end func())
		read, write, script string // error codes, "" for an answer
	}{
		{
			name: "read only",
			begin: func(s *Server, t *testing.T) func() {
				s.ReadOnly(t)
				return func() { s.Writable(t) }
			},
			write: "READONLY", script: "READONLY",
		},
		{
			name: "master down",
			begin: func(s *Server, t *testing.T) func() {
				s.MasterDown(t)
				return func() { s.Writable(t) }
			},
			read: "MASTERDOWN", write: "READONLY", script: "MASTERDOWN",
		},
		{
			name: "memory full",
			begin: func(s *Server, t *testing.T) func() {
				s.FillMemory(t)
				return func() { s.FreeMemory(t) }
			},
			write: "OOM", script: "OOM",
		},
		{
			name:  "busy",
			begin: func(s *Server, t *testing.T) func() { return s.Busy(t, 0) },
			read:  "BUSY", write: "BUSY", script: "BUSY",
		},
		{
			name:  "loading",
			begin: func(s *Server, t *testing.T) func() { return s.Loading(t) },
			read:  "LOADING", write: "LOADING", script: "LOADING",
		},
	} {
		for _, network := range []string{"unix", "tcp"} {
			t.Run(c.name+" "+network, func(t *testing.T) {
				t.Parallel()
				s := Start
				if network == "tcp" {
					s = StartTCP
				}
				server := s(t)
				check := func(when, read, write, script string) {
					t.Helper()
					ctx, client := t.Context(), impatient(t, server)
					for _, got := range []struct {
						what, code string
						err        error
					}{
						{"GET", read, client.Get(ctx, "k").Err()},
						{"SET", write, client.Set(ctx, "k", "v", 0).Err()},
						{"EVAL", script, client.Eval(ctx, "return redis.call('SET', KEYS[1], 'script')", []string{"k"}).Err()},
					} {
						if got.code != "" && got.what == "EVAL" && Before(t, 7, 0) && got.err != nil && strings.Contains(got.err.Error(), "-"+got.code+" ") {
							continue // the code is within a text of the script's
						}
						if got.code != "" {
							wantRefusal(t, got.what+" "+when, got.err, got.code)
						} else if got.err != nil {
							t.Errorf("%s %s: %v", got.what, when, got.err)
						}
					}
				}
				must.OK(t, server.Client(t).Set(t.Context(), "k", "before", 0).Err())
				end := c.begin(server, t)
				check("meanwhile", c.read, c.write, c.script)
				end()
				if got, err := server.Client(t).Get(t.Context(), "k").Result(); got != "before" || err != nil {
					t.Errorf("GET afterwards: %q, %v", got, err)
				}
				if n, err := server.Client(t).DBSize(t.Context()).Result(); n != 1 || err != nil {
					t.Errorf("%d keys afterwards, %v", n, err)
				}
				check("afterwards", "", "", "")
			})
		}
	}
}

func TestBusyEndsByItself(t *testing.T) {
	t.Parallel()
	s := Start(t)
	stop := s.Busy(t, 50*time.Millisecond)
	must.OK(t, await("an answer", func() error { return s.do("ping") }))
	stop()
	stop()
	if got, err := s.configGet("lua-time-limit"); got != "5000" || err != nil {
		t.Errorf("the threshold afterwards: %s, %v", got, err)
	}
}

func TestFaultsEndWithTheServer(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(s *Server, t *testing.T) func(){
		"busy":    func(s *Server, t *testing.T) func() { return s.Busy(t, 0) },
		"loading": func(s *Server, t *testing.T) func() { return s.Loading(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Start(t)
			end := begin(s, t)
			s.Kill()
			end()
			s.Restart(t)
			if n, err := s.Client(t).DBSize(t.Context()).Result(); n != 0 || err != nil {
				t.Errorf("after a restart %d keys, %v, want none", n, err)
			}
		})
	}
}

func TestScriptFlushForgetsScripts(t *testing.T) {
	t.Parallel()
	s := Start(t)
	ctx, c := t.Context(), impatient(t, s)
	sha := c.ScriptLoad(ctx, "return 1").Val()
	must.OK(t, c.EvalSha(ctx, sha, nil).Err())
	s.ScriptFlush(t)
	wantRefusal(t, "EVALSHA", c.EvalSha(ctx, sha, nil).Err(), "NOSCRIPT")
}

func TestConfigSetChangesARunningServer(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.ConfigSet(t, "maxclients", "123")
	if got, err := s.configGet("maxclients"); got != "123" || err != nil {
		t.Errorf("maxclients = %s, %v", got, err)
	}
}

func TestKillClientsClosesTheirConnections(t *testing.T) {
	t.Parallel()
	s := Start(t)
	var conns []net.Conn
	for range 3 {
		conn := dial(t, s.Network(), s.Addr())
		must.Equal(t, "PING answered", exchange(t, conn, "PING\r\n", len("+PONG\r\n")), "+PONG\r\n")
		conns = append(conns, conn)
	}
	check.Equal(t, "KillClients", s.KillClients(t), 3)
	for _, conn := range conns {
		if b, err := io.ReadAll(conn); len(b) != 0 || err != nil {
			t.Errorf("read %q, %v, want the end", b, err)
		}
	}
}

// dial opens a connection for a test that looks at the bytes.
func dial(t *testing.T, network, addr string) net.Conn {
	t.Helper()
	conn := must.Get(net.Dial(network, addr))(t)
	t.Cleanup(func() { _ = conn.Close() })
	must.OK(t, conn.SetDeadline(time.Now().Add(awaitTimeout)))
	return conn
}

// exchange writes a request and reads n bytes.
func exchange(t *testing.T, conn net.Conn, request string, n int) string {
	t.Helper()
	must.Do(conn.Write([]byte(request)))(t)
	reply := make([]byte, n)
	if got, err := io.ReadFull(conn, reply); err != nil {
		return fmt.Sprintf("%s, then %v", reply[:got], err)
	}
	return string(reply)
}
