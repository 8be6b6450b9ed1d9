package main

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/metrics/top"
)

// Where nothing can be known, the command says so, and changes nothing.
func TestWithoutSnapshotsItSaysWhatToDo(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	c := call{env: map[string]string{"WEBLIMIT_REDIS": "unix://" + server.Addr(), "WEBLIMIT_PREFIX": redistest.Prefix(t)}}
	for _, args := range [][]string{{"top"}, {"peek", "user:1"}, {"explain", "user:1"}, {"reset", "user:1"}, {"block", "user:1", "--for", "1m"}, {"unblock", "user:1"}, {"blocks"}, {"suggest"}} {
		wants(t, c.fails(t, exitError, args...), "no instance publishes its limits there under the prefix", "Exchange: store.Exchange()", "--prefix", "--url")
	}
}

// What is in Redis can come from anybody who can write there.
func TestHostileRedis(t *testing.T) {
	t.Parallel()
	a := startShared(t)
	a.ask(t, "user:42", 20)
	a.published(t, "user:42", 20)
	publish := func(name, snapshot string) {
		t.Helper()
		must.OK(t, (longLived{a.store.Exchange()}).Publish(t.Context(), name, []byte(snapshot), time.Minute))
	}
	publish("broken", "\x1b[2J")
	r := a.onRedis.run(t, "top")
	wants(t, r.err, "1 of 2 instances can't be understood")
	wants(t, r.out, "login", "user:42")
	// A limit with numbers that make no rule is named, and the others go on.
	strange := &top.Snapshot{
		Instances: []top.Instance{{Name: "strange", At: time.Now()}},
		Limits:    []top.Limit{{Name: "strange", Quota: 1 << 52, Burst: 1, Window: 1, Clients: []top.Client{{Key: `user:\x1b`}}}},
	}
	data := must.Get(strange.MarshalBinary())(t)
	publish("strange", string(data))
	r = a.onRedis.run(t, "explain", "user:42")
	wants(t, r.err, "numbers of these limits are not published", "strange", "--url")
	wants(t, r.out, "login: denied")
	if strings.ContainsAny(r.out+r.err, "\x1b\x07") {
		t.Errorf("an escape sequence reaches the terminal: %q", r.out+r.err)
	}
}

// A server that is none says anything, without end, and the command ends with one line.
func TestServersThatAreNoRedis(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(net.Conn){
		"escapes": func(c net.Conn) { _, _ = c.Write([]byte("-ERR \x1b]0;pwned\a\x1b[2J\r\n")) },
		"huge":    func(c net.Conn) { _, _ = c.Write([]byte("$9223372036854775807\r\n")) },
		"many":    func(c net.Conn) { _, _ = c.Write([]byte("*2147483647\r\n")) },
		"endless": func(c net.Conn) { writeOn(c, "+OK\r\n") },
		"no line": func(c net.Conn) { writeOn(c, strings.Repeat("x", 1<<10)) },
		// HELLO is refused, as old servers do, and GET gets a length.
		"huge GET":  func(c net.Conn) { _, _ = c.Write([]byte("-ERR unknown command\r\n$9223372036854775807\r\n")) },
		"large GET": func(c net.Conn) { _, _ = c.Write([]byte("-ERR unknown command\r\n$400000000000\r\n")) },
		"silent":    func(net.Conn) { time.Sleep(2 * time.Second) },
		"hangs up":  func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						serve(c)
						_ = c.SetReadDeadline(time.Now().Add(time.Second))
						for buf := make([]byte, 1024); ; {
							if _, err := c.Read(buf); err != nil {
								return
							}
							serve(c)
						}
					}()
				}
			}()
			c := call{env: map[string]string{"WEBLIMIT_REDIS": "redis://" + l.Addr().String()}}
			said := c.fails(t, exitError, "top", "--timeout", "500ms")
			if strings.Count(said, "\n") != 1 || strings.ContainsAny(said, "\x1b\x07") {
				t.Errorf("it says %q", said)
			}
			t.Log(said)
		})
	}
}

// writeOn writes for a second.
func writeOn(c net.Conn, text string) {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	for {
		if _, err := c.Write([]byte(text)); err != nil {
			return
		}
	}
}

func TestClusterAndSentinel(t *testing.T) {
	t.Parallel()
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartClusterOf(t, 3, 0)
		a := startOn(t, cluster.Client(t), redisstore.DefaultPrefix, "redis://"+cluster.Nodes()[1].Addr())
		everywhere(t, a, "--redis-cluster")
	})
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		sentinel := redistest.StartSentinel(t)
		a := startOn(t, sentinel.Client(t), redisstore.DefaultPrefix, "redis://"+sentinel.Sentinels()[0].Addr())
		everywhere(t, a, "--redis-sentinel-master", redistest.MasterName)
	})
}

// everywhere runs each command once.
func everywhere(t *testing.T, a *application, flags ...string) {
	t.Helper()
	a.ask(t, "user:42", 20)
	a.published(t, "user:42", 20)
	run := func(args ...string) result { return a.onRedis.run(t, append(args, flags...)...) }
	wants(t, run("top").out, "login", "user:42")
	if r := run("peek", "user:42"); r.code != exitDenied {
		t.Errorf("peek: exit code %d: %s%s", r.code, r.out, r.err)
	}
	wants(t, run("block", "user:7", "--for", "1h", "--limit", "login").out, "Blocked user:7 under login")
	if n := a.ask(t, "user:7", 1); n != 0 {
		t.Error("a blocked client passes")
	}
	wants(t, run("blocks").out, "user:7", "set by hand")
	wants(t, run("unblock", "user:7").out, "Unblocked user:7")
	wants(t, run("reset", "user:42").out, "Reset user:42 under login")
}

// rediss:// checks the server's certificate, by --cacert if it is set.
func TestRedisOverTLS(t *testing.T) {
	t.Parallel()
	pages := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer pages.Close()
	a := startShared(t)
	a.ask(t, "user:42", 20)
	a.published(t, "user:42", 20)
	l := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: pages.TLS.Certificates, MinVersion: tls.VersionTLS12}))(t)
	defer l.Close()
	socket := redistest.Shared(t).Addr()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				to, err := net.Dial("unix", socket)
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, c) }()
				_, _ = io.Copy(c, to)
			}()
		}
	}()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must.OK(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pages.Certificate().Raw}), 0o600))
	c := a.onRedis
	c.env["WEBLIMIT_REDIS"] = "rediss://" + l.Addr().String()
	wants(t, c.fails(t, exitError, "top"), "certificate")
	wants(t, c.ok(t, "top", "--redis-cacert", ca), "user:42")
	c.env["WEBLIMIT_REDIS"] = "rediss://localhost:" + l.Addr().String()[len("127.0.0.1:"):] // the certificate is for another name
	wants(t, c.fails(t, exitError, "top", "--redis-cacert", ca), "certificate")
}

// The permissions of docs/run/redis.md suffice for all commands, as for the store; for top alone those of docs/run/command.md, with which a script can only read.
func TestTheCommandUnderTheLeastPrivilege(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/run/redis.md"))(t)
	line := regexp.MustCompile(`(?m)^ACL SETUSER weblimit on >secret (.*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("docs/run/redis.md has no ACL line")
	}
	redistest.Since(t, 6, 0, "ACLs")
	server := redistest.StartTCP(t)
	admin := clientOf(t, server)
	acl := func(args ...any) {
		t.Helper()
		must.OK(t, admin.Do(t.Context(), append([]any{"acl", "setuser"}, args...)...).Err())
	}
	rules := []any{"ops", "on", ">s3cret"}
	for _, rule := range strings.Fields(string(line[1])) {
		rules = append(rules, rule)
	}
	acl(rules...)
	acl("viewer", "on", ">s3cret", "~weblimit:*", "-@all", "+evalsha", "+eval", "+get")
	a := startOn(t, admin, redisstore.DefaultPrefix, "redis://"+server.Addr())
	a.onRedis.env["WEBLIMIT_REDIS_USER"], a.onRedis.env["WEBLIMIT_REDIS_PASSWORD"] = "ops", "s3cret"
	a.ask(t, "user:42", 20)
	a.published(t, "user:42", 20)
	for _, args := range [][]string{{"top"}, {"block", "user:42", "--for", "1m", "--limit", "login"}, {"blocks"}, {"unblock", "user:42"}, {"reset", "user:42"}, {"peek", "user:42"}} {
		a.onRedis.ok(t, args...)
	}
	a.onRedis.env["WEBLIMIT_REDIS_USER"] = "viewer"
	a.onRedis.ok(t, "top")
	a.onRedis.ok(t, "suggest")
	wants(t, a.onRedis.fails(t, exitError, "reset", "user:42"), "NOPERM")
	a.onRedis.env["WEBLIMIT_REDIS_PASSWORD"] = "wrong"
	wants(t, a.onRedis.fails(t, exitError, "top"), "WRONGPASS")
}
