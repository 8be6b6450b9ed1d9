package gateways

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/proxies"
)

// program is a gateway with its configuration in deploy/gateways.
type program struct {
	name, folder, binary string
	files                []string // the configuration first, then those that it names

	// Edits of the files, in pairs of old and new text, of which each occurs at least once. ADDR, HOST
	// and PORT stand for the gateway's own address, AWAY for another, CERT and KEY for files, APP and SOCKET
	// for the addresses of application and limiter, and DIR for a folder.
	edits []string

	// What may happen while the limiter is away, the default first, and the line that says so, by a word
	// that may be another.
	policies []string
	words    map[string]string
	away     string
	optional bool // in no Debian release

	around func(config, dir string) string // makes a whole configuration
	args   func(file string) []string
}

var nginx = &program{
	name: "nginx", folder: "nginx", binary: "nginx", files: []string{"weblimit.conf"},
	edits: []string{
		"listen 443 ssl", "listen ADDR ssl", "/etc/ssl/example.com.crt", "CERT", "/etc/ssl/example.com.key", "KEY",
		"unix:/run/weblimit/gateway.sock", "unix:SOCKET", "127.0.0.1:8080", "APP", "127.0.0.1:8429", "AWAY",
	},
	policies: []string{"local", "closed", "open"}, away: "set $weblimit_away %s;",
	around: func(config, dir string) string {
		temp := ""
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			temp += kind + "_temp_path " + dir + "/" + kind + ";\n"
		}
		// One process: workers would outlive a test process that is killed.
		return "daemon off; master_process off; pid " + dir + "/pid; events {}\nhttp { access_log off; " + temp + config + "}\n"
	},
	args: func(file string) []string { return []string{"-c", file, "-e", "stderr"} },
}

var haproxy = &program{
	name: "HAProxy", folder: "haproxy", binary: "haproxy", files: []string{"haproxy.cfg", "weblimit.lua"},
	edits: []string{
		"bind :443 ssl crt /etc/haproxy/example.com.pem", "bind ADDR ssl crt CERT", "/etc/haproxy/weblimit.lua", "DIR/weblimit.lua",
		"unix@/run/weblimit/gateway.sock", "unix@SOCKET", "127.0.0.1:8080", "APP", "127.0.0.1:8429", "AWAY",
	},
	policies: []string{"local", "closed", "open"}, away: "str(%s)",
	around: func(config, _ string) string { return config },
	args:   func(file string) []string { return []string{"-db", "-f", file} },
}

var caddy = &program{
	name: "Caddy", folder: "caddy", binary: "caddy", files: []string{"Caddyfile"},
	edits: []string{
		"example.com {", "example.com:PORT {\n\tbind HOST\n\ttls CERT KEY", // no certificate authority is asked
		"unix//run/weblimit/gateway.sock", "unix/SOCKET", "127.0.0.1:8080", "APP",
	},
	policies: []string{"closed", "open"}, words: map[string]string{"open": "app"},
	away: "\t\timport %s\n",
	around: func(config, _ string) string {
		return "{\n admin off\n auto_https off\n servers {\n  protocols h1 h2\n }\n}\n" + config
	},
	args: func(file string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} },
}

var programs = []*program{nginx, haproxy, caddy}

// each runs a test with every gateway, in parallel.
func each(t *testing.T, test func(t *testing.T, p *program)) {
	t.Helper()
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// setup is a running gateway with its limiter and its application.
type setup struct {
	addr    string
	limiter *limiter
	served  *atomic.Int64 // requests that have reached the application
	last    *atomic.Pointer[http.Request]
	log     *lockedBuffer
}

// start starts application, limiter and gateway, with limits as the policy file, and a policy for a limiter
// that is away, or "" for the default.
func (p *program) start(t *testing.T, limits, away string) *setup {
	t.Helper()
	binary := p.require(t)
	dir := shortDir(t)
	s := &setup{addr: proxies.FreeAddr(t), served: new(atomic.Int64), last: new(atomic.Pointer[http.Request]), log: new(lockedBuffer)}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		s.last.Store(r)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "served")
	}))
	t.Cleanup(app.Close)
	s.limiter = startLimiter(t, dir, limits)

	host, port, _ := strings.Cut(s.addr, ":")
	cert, key := proxies.Certificate(t, dir)
	own := strings.NewReplacer("ADDR", s.addr, "HOST", host, "PORT", port, "CERT", cert, "KEY", key, "APP", app.Listener.Addr().String(),
		"SOCKET", s.limiter.socket, "AWAY", proxies.FreeAddr(t), "DIR", dir)
	for i, name := range p.files {
		config := p.read(t, name)
		if i == 0 {
			config = p.choose(t, config, away)
		}
		for pair := range slices.Chunk(p.edits, 2) {
			if i == 0 && !strings.Contains(config, pair[0]) {
				t.Fatalf("%s does not have %q", name, pair[0])
			}
			config = strings.ReplaceAll(config, pair[0], own.Replace(pair[1]))
		}
		if i == 0 {
			config = p.around(config, dir)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(binary, p.args(filepath.Join(dir, p.files[0]))...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = s.log, s.log, dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("%s:\n%.4000s\nthe limiter:\n%.4000s", p.name, s.log, &s.limiter.log)
		}
	})
	waitFor(t, p.name, s.log, func() error {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	return s
}

// read returns a file of deploy/gateways.
func (p *program) read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(documents.Root, "deploy/gateways", p.folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// choose chooses the policy for a limiter that is away, as an operator does, by one word.
func (p *program) choose(t testing.TB, config, away string) string {
	t.Helper()
	if away == "" {
		return config
	}
	if word, other := p.words[away]; other {
		away = word
	}
	standard := fmt.Sprintf(p.away, p.policies[0])
	if strings.Count(config, standard) != 1 {
		t.Fatalf("the configuration of %s does not have %q once", p.name, standard)
	}
	return strings.Replace(config, standard, fmt.Sprintf(p.away, away), 1)
}

// require returns the program's path. It ends the test when there is none: skipped on a developer's
// machine, failed where CI=true.
func (p *program) require(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath(p.binary)
	if err != nil { // Debian keeps servers outside of some users' PATH
		path, err = exec.LookPath("/usr/sbin/" + p.binary)
	}
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" && !p.optional {
		t.Fatal(err)
	}
	t.Skipf("needs %s: %v", p.binary, err)
	return ""
}

// patience is how long a program may take on the busiest machine.
const patience = 30 * time.Second

// waitFor waits until try has no error.
func waitFor(tb testing.TB, what string, log *lockedBuffer, try func() error) {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("waited %v for %s: %v\n%s", patience, what, err, log)
		}
	}
}

// shortDir makes a directory whose sockets have short paths.
func shortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "gateway")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// lockedBuffer collects the output of a process.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // Guarded by mu.
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
