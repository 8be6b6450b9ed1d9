package gateways

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/suites/proxies"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
)

// program is a gateway with its configuration in deploy/gateways.
type program struct {
	name, folder, binary string
	files                []string // the configuration first, then those that it names

	// Edits of the files, in pairs of old and new text, of which each occurs at least once. ADDR, HOST
	// and PORT stand for the gateway's own address, AWAY for another, CERT and KEY for files, APP and LIMITER
	// for the addresses of application and limiter, and DIR for a folder.
	edits []string

	// patient are edits with which the gateway waits for the limiter for a minute. With its own bounds of
	// time, a limiter is away that a busy machine keeps from running. Each may be left out with the limiter.
	patient []string

	// What may happen while the limiter is away, the default first, and the line that says so, by a word
	// that may be another.
	policies []string
	words    map[string]string
	away     string
	network  string         // to the limiter, unix if not set
	optional bool           // in no Debian release
	cut      *regexp.Regexp // what is left out, if any
	bare     bool           // has no problem of its own while the limiter is away
	tells    bool           // RateLimit of requests that pass goes to the application, which here passes it on

	around func(config, dir string) string // makes a whole configuration
	args   func(file string) []string
}

var nginx = &program{
	name: "nginx", folder: "nginx", binary: "nginx", files: []string{"weblimit.conf"},
	edits: []string{
		"listen 443 ssl", "listen ADDR ssl", "/etc/ssl/example.com.crt", "CERT", "/etc/ssl/example.com.key", "KEY",
		"unix:/run/weblimitd.sock", "unix:LIMITER", "127.0.0.1:8080", "APP",
	},
	patient: []string{
		"proxy_connect_timeout 100ms", "proxy_connect_timeout 60s", "proxy_send_timeout    300ms", "proxy_send_timeout 60s",
		"proxy_read_timeout    300ms", "proxy_read_timeout 60s",
	},
	policies: []string{"local", "closed", "open"}, away: "set $weblimit_away %s;",
	around: func(config, dir string) string {
		temp := ""
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			temp += kind + "_temp_path " + dir + "/" + kind + ";\n"
		}
		// One process: workers would outlive a test process that is killed.
		return "daemon off; master_process off; pid " + dir + "/pid; events { worker_connections 8192; }\nhttp { access_log off; " + temp + config + "}\n"
	},
	args: func(file string) []string { return []string{"-c", file, "-e", "stderr"} },
}

var haproxy = &program{
	name: "HAProxy", folder: "haproxy", binary: "haproxy", files: []string{"haproxy.cfg", "weblimit.lua"},
	edits: []string{
		"bind :443 ssl crt /etc/haproxy/example.com.pem", "bind ADDR ssl crt CERT", "/etc/haproxy/weblimit.lua", "DIR/weblimit.lua",
		"unix@/run/weblimitd.sock", "unix@LIMITER", "127.0.0.1:8080", "APP", "abns@weblimit_ask", "abns@AWAY",
	},
	patient: []string{
		"timeout connect 100ms", "timeout connect 60s", "timeout server 300ms", "timeout server 60s", "timeout check 200ms", "timeout check 60s",
		"local timeout = 500 ", "local timeout = 60000 ",
	},
	policies: []string{"local", "closed", "open"}, away: "str(%s)",
	around: func(config, _ string) string { return config },
	args:   func(file string) []string { return []string{"-db", "-f", file} },
}

var caddy = &program{
	name: "Caddy", folder: "caddy", binary: "caddy", files: []string{"Caddyfile"},
	edits: []string{
		"example.com {", "example.com:PORT {\n\tbind HOST\n\ttls CERT KEY", // no certificate authority is asked
		"unix//run/weblimitd.sock", "unix/LIMITER", "127.0.0.1:8080", "APP",
	},
	patient:  []string{"dial_timeout 100ms", "dial_timeout 60s", "response_header_timeout 300ms", "response_header_timeout 60s"},
	policies: []string{"closed", "open"}, words: map[string]string{"open": "app"},
	away: "\t\timport %s\n",
	around: func(config, _ string) string {
		return "{\n admin off\n auto_https off\n servers {\n  protocols h1 h2\n }\n}\n" + config
	},
	args: func(file string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} },
}

var traefik = &program{
	name: "Traefik", folder: "traefik", binary: "traefik", files: []string{"traefik.yml", "dynamic.yml"}, optional: true, network: "tcp",
	edits: []string{
		`":443"`, `"ADDR"`, "/etc/ssl/example.com.crt", "CERT", "/etc/ssl/example.com.key", "KEY", "/etc/traefik/dynamic.yml", "DIR/dynamic.yml",
		"127.0.0.1:8080", "APP", "127.0.0.1:8429", "AWAY", "http://127.0.0.1:9180", "http://LIMITER",
	},
	patient:  []string{"dialTimeout: 100ms", "dialTimeout: 60s", "responseHeaderTimeout: 300ms", "responseHeaderTimeout: 60s"},
	policies: []string{"closed", "open"}, away: "middlewares: [%s]",
	words:  map[string]string{"closed": "weblimit-breaker", "open": "weblimit-open, weblimit-breaker"},
	around: func(config, _ string) string { return config },
	args:   func(file string) []string { return []string{"--configFile=" + file} },
	bare:   true, tells: true,
}

var programs = []*program{nginx, haproxy, caddy, traefik}

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

// prober is an address from which nothing but the first requests comes.
const prober = "127.0.0.55"

// setup is a running gateway with its limiter and its application.
type setup struct {
	*program
	addr    string
	away    string // where it decides, or asks, while the limiter is away
	limiter *limiter
	served  *atomic.Int64 // requests that have reached the application
	strays  *atomic.Int64 // of these, how many look like subrequests
	last    *atomic.Pointer[http.Request]
	gateway *child.Server

	attacker, bystander string // addresses of clients
	logged              int    // what of the limiter's log is from before the test
}

// start starts application, limiter and gateway, with limits as the policy file, and a policy for a limiter
// that is away, or "" for the default. The gateway is patient with the limiter.
func (p *program) start(t testing.TB, limits, away string) *setup {
	t.Helper()
	patient := *p
	patient.edits = slices.Concat(p.edits, p.patient)
	s := patient.startAsIs(t, limits, away)
	s.program = p
	return s
}

// startAsIs is start for tests about a limiter that does not answer in time.
func (p *program) startAsIs(t testing.TB, limits, away string) *setup {
	t.Helper()
	binary := p.require(t)
	dir := child.Dir(t)
	s := &setup{program: p, addr: proxies.FreeAddr(t), away: proxies.FreeAddr(t), served: new(atomic.Int64), strays: new(atomic.Int64), last: new(atomic.Pointer[http.Request]), attacker: proxies.Attacker, bystander: proxies.Bystander}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		s.last.Store(r)
		if strings.HasPrefix(r.URL.Path, "/v1/auth") {
			s.strays.Add(1)
		}
		if proxies.Upgrade(w, r) {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
			if told := r.Header.Get(name); p.tells && told != "" {
				w.Header().Set(name, told)
			}
		}
		_, _ = io.WriteString(w, "served")
	}))
	t.Cleanup(app.Close)
	s.limiter = startLimiter(t, cmp.Or(p.network, "unix"), dir, limits)

	host, port, _ := strings.Cut(s.addr, ":")
	cert, key := proxies.Certificate(t, dir)
	own := strings.NewReplacer("ADDR", s.addr, "HOST", host, "PORT", port, "CERT", cert, "KEY", key, "APP", app.Listener.Addr().String(),
		"LIMITER", s.limiter.addr, "AWAY", s.away, "DIR", dir)
	files := p.read(t)
	p.choose(t, files, away)
	p.leaveOut(t, files)
	for pair := range slices.Chunk(p.edits, 2) {
		if p.cut == nil && !strings.Contains(strings.Join(files, ""), pair[0]) {
			t.Fatalf("the configuration of %s does not have %q", p.name, pair[0])
		}
		for i := range files {
			files[i] = strings.ReplaceAll(files[i], pair[0], own.Replace(pair[1]))
		}
	}
	for i, name := range p.files {
		config := files[i]
		if i == 0 {
			config = p.around(config, dir)
		}
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(config), 0o600))
	}
	cmd := exec.Command(binary, p.args(filepath.Join(dir, p.files[0]))...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir, "WEBLIMIT_TOKEN="+token)
	c := s.client(t, prober)
	s.gateway = child.Serve(t, cmd, func(string) error { // some accept connections before they can serve
		res, err := c.Get("https://example.com/")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK {
				err = errors.New(res.Status)
			}
		}
		return err
	})
	c.CloseIdleConnections()
	s.served.Store(0)
	return s
}

// read returns the files of deploy/gateways.
func (p *program) read(t testing.TB) (files []string) {
	t.Helper()
	for _, name := range p.files {
		text := must.Get(os.ReadFile(filepath.Join(documents.Root, "deploy/gateways", p.folder, name)))(t)
		files = append(files, string(text))
	}
	return files
}

// choose chooses the policy for a limiter that is away, as an operator does, by one line.
func (p *program) choose(t testing.TB, files []string, away string) {
	t.Helper()
	if away == "" {
		return
	}
	line := func(policy string) string { return fmt.Sprintf(p.away, cmp.Or(p.words[policy], policy)) }
	standard, found := line(p.policies[0]), 0
	for i := range files {
		found += strings.Count(files[i], standard)
		files[i] = strings.Replace(files[i], standard, line(away), 1)
	}
	if found != 1 {
		t.Fatalf("the configuration of %s does not have %q once", p.name, standard)
	}
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
	if p.optional {
		t.Skipf("needs %s, which is in no Debian release, in PATH: doc.go says how to build it, and docs/service/gateways.md which release was tested", p.binary)
	}
	t.Skipf("needs %s: %v", p.binary, err)
	return ""
}

// patience is how long a program may take on the busiest machine.
const patience = 2 * time.Minute
