package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
)

// planted is a client's key that must be found in Redis only.
const planted = "user:alice@example.com-8731"

// everything returns all text that a decision can leave in a log.
func everything(d core.Decision, heard *audience) string {
	var log bytes.Buffer
	for _, logger := range []*slog.Logger{slog.New(slog.NewJSONHandler(&log, nil)), slog.New(slog.NewTextHandler(&log, nil))} {
		logger.Info("decided", "decision", d, "error", d.Err)
	}
	_, _ = fmt.Fprintf(&log, "%v %+v\n", d, d.Err)
	for err := d.Err; err != nil; err = errors.Unwrap(err) {
		_, _ = fmt.Fprintf(&log, "%v %+v %#v\n", err, err, err)
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	for _, e := range heard.events {
		_, _ = fmt.Fprintf(&log, "%v %+v %v\n", e, e, e.Err)
	}
	return log.String()
}

// leaks reports whether a text contains the planted key, or half of it.
func leaks(text string) bool {
	return strings.Contains(text, planted[:len(planted)/2]) || strings.Contains(text, planted[len(planted)/2:])
}

// The error texts of servers and proxies differ. Nothing in them that may be a key is
// passed on.
func TestNoErrorOfAnotherServerHoldsAKey(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"a permission":       "-NOPERM User app has no permissions to access the '%s' key\r\n",
		"within the script":  "-ERR ACL failure in script: no access to %q script: 1f\r\n",
		"an unknown error":   "-ERR backend has no route for %s\r\n",
		"a cut key":          "-ERR no route for %.30s...\r\n",
		"a moved slot":       "-MOVED %s 127.0.0.1:1\r\n",
		"nothing like Redis": "HTTP/1.1 400 %s\r\n",
		"a wrong length":     "$%s\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&redis.Options{Addr: parrot(t, reply), Protocol: 2, DisableIdentity: true})
			t.Cleanup(func() { _ = client.Close() })
			store := redisstore.New(client)
			heard := listen(store)
			l := newPatient(t, store, atMost(1000, "api").OnOutage(core.Deny))
			for range 8 {
				d := l.AllowKey(t.Context(), planted, 1)
				if d.Err == nil {
					t.Fatal("decided")
				}
				if text := everything(d, heard); leaks(text) {
					t.Fatalf("the key can be read:\n%s", text)
				}
			}
		})
	}
}

// parrot starts a server that answers each script with an error that quotes the first
// key, and returns its address.
func parrot(t *testing.T, reply string) string {
	t.Helper()
	listener := must.Get(new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for in := bufio.NewReader(conn); ; {
					args, err := readCommand(in)
					if err != nil {
						return
					}
					answer := "-ERR unknown command\r\n"
					if strings.HasPrefix(strings.ToLower(args[0]), "eval") {
						answer = fmt.Sprintf(reply, args[3])
					}
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) (args []string, err error) {
	number := func() (n int) {
		line, failed := in.ReadString('\n')
		if err = failed; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for n := number(); n > 0 && err == nil; n-- {
		arg := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(in, arg)
		}
		args = append(args, string(arg[:len(arg)-2]))
	}
	return args, err
}
