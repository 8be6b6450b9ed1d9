package proxies

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
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
	"github.com/weblimit/weblimit/internal/test/must"
)

// A proxy is a program whose configuration docs/run/proxies.md shows.
type proxy struct {
	name     string
	language string // of its block in the document
	binary   string

	// Edits of the block, in pairs of old and new text: to serve with TLS, to serve without,
	// and to reach an application on a unix socket. ADDR, HOST, PORT, CERT and KEY stand for
	// the proxy's own, and APP for the application's address.
	secure, plain, unix []string

	// args are the arguments to run in the foreground, as one process, with a
	// configuration file.
	args func(file string) []string

	// around makes a whole configuration of the block. It writes only to dir.
	around func(block, dir string) string

	// forwarded says that the block sets Forwarded.
	forwarded bool
}

var nginx = proxy{
	name: "nginx", language: "nginx", binary: "nginx",
	secure: []string{"listen 443 ssl", "listen ADDR ssl", "/etc/ssl/example.com.crt", "CERT", "/etc/ssl/example.com.key", "KEY"},
	plain:  []string{"listen 443 ssl http2", "listen ADDR", "/etc/ssl/example.com.crt", "CERT", "/etc/ssl/example.com.key", "KEY"},
	unix:   []string{"server 127.0.0.1:8080", "server unix:APP"},
	args:   func(file string) []string { return []string{"-c", file, "-e", "stderr"} },
	around: func(block, dir string) string {
		// One process: workers would outlive a test process that is killed.
		temp := ""
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			temp += kind + "_temp_path " + dir + "/" + kind + ";\n"
		}
		return "daemon off; master_process off; pid " + dir + "/pid; events {}\n" +
			"http { access_log off; " + temp + block + "}\n"
	},
	forwarded: true,
}

var haproxy = proxy{
	name: "HAProxy", language: "haproxy", binary: "haproxy",
	secure: []string{"bind :443 ssl crt /etc/haproxy/example.com.pem", "bind ADDR ssl crt CERT"},
	plain:  []string{"bind :443 ssl crt /etc/haproxy/example.com.pem alpn h2,http/1.1", "bind ADDR"},
	unix:   []string{"server app 127.0.0.1:8080", "server app APP"},
	args:   func(file string) []string { return []string{"-db", "-f", file} },
	around: func(block, _ string) string {
		return "defaults\n timeout client 30s\n timeout server 30s\n timeout connect 5s\n" + block
	},
	forwarded: true,
}

var caddy = proxy{
	name: "Caddy", language: "caddyfile", binary: "caddy",
	secure: []string{"example.com {", "example.com:PORT {\n\tbind HOST\n\ttls CERT KEY"}, // no certificate authority is asked
	plain:  []string{"example.com {", "http://example.com:PORT {\n\tbind HOST"},
	unix:   []string{"reverse_proxy 127.0.0.1:8080", "reverse_proxy unix/APP"},
	args:   func(file string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} },
	around: func(block, _ string) string {
		return "{\n admin off\n auto_https off\n servers {\n  protocols h1 h2\n }\n}\n" + block
	},
}

var proxies = []*proxy{&nginx, &haproxy, &caddy}

// started is a running proxy and the address that it serves on.
type started struct {
	*proxy
	addr string
	stop func()
}

func (s *started) Network() string { return "tcp" }
func (s *started) String() string  { return s.addr }

// start starts the proxy with TLS in front of an application, and returns once it
// serves. It makes further edits first.
func (p *proxy) start(tb testing.TB, app net.Addr, edits ...string) *started {
	tb.Helper()
	return p.run(tb, app, slices.Concat(edits, p.secure))
}

// startInner starts the proxy without TLS, behind another proxy.
func (p *proxy) startInner(tb testing.TB, app net.Addr, edits ...string) *started {
	tb.Helper()
	return p.run(tb, app, slices.Concat(edits, p.plain))
}

func (p *proxy) run(tb testing.TB, app net.Addr, edits []string) *started {
	tb.Helper()
	path := p.require(tb)
	dir := child.Dir(tb)
	addr := freeAddr(tb)
	host, port, _ := strings.Cut(addr, ":")
	cert, key := writeCertificate(tb, dir)
	own := strings.NewReplacer("ADDR", addr, "HOST", host, "PORT", port, "CERT", cert, "KEY", key, "APP", app.String())
	if app.Network() == "unix" {
		edits = slices.Concat(edits, p.unix)
	} else {
		edits = append(edits, "127.0.0.1:8080", "APP")
	}
	block := documents.Block(tb, "run/proxies.md", p.language)
	for pair := range slices.Chunk(edits, 2) {
		if strings.Count(block, pair[0]) != 1 {
			tb.Fatalf("the configuration of %s does not have %q once", p.name, pair[0])
		}
		block = strings.Replace(block, pair[0], own.Replace(pair[1]), 1)
	}
	file := filepath.Join(dir, "conf")
	must.OK(tb, os.WriteFile(file, []byte(p.around(block, dir)), 0o600))
	var log child.Output
	cmd := exec.Command(path, p.args(file)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &log, &log, dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	must.OK(tb, child.Start(cmd))
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // killed, as a rule
	}()
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	tb.Cleanup(stop)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) { // no proxy tells when it listens
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return &started{p, addr, stop}
		}
		select {
		case <-exited:
			tb.Fatalf("%s exited at start-up\n%s", p.name, &log)
		default:
		}
		if time.Now().After(deadline) {
			tb.Fatalf("waited %v for %s: %v\n%s", patience, p.name, err, &log)
		}
	}
}

// patience is how long a proxy may take to start on the busiest machine.
const patience = 2 * time.Minute

// require returns the program's path. It ends the test when there is none:
// skipped on a developer's machine, failed where CI=true.
func (p *proxy) require(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath(p.binary)
	if err != nil { // Debian keeps servers outside of some users' PATH
		path, err = exec.LookPath("/usr/sbin/" + p.binary)
	}
	if err == nil {
		var l net.Listener
		if l, err = net.Listen("tcp", attacker+":0"); err == nil {
			_ = l.Close()
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		tb.Fatal(err)
	}
	tb.Skipf("needs %s and 127.0.0.0/8: %v", p.binary, err)
	return ""
}

// proxyCount numbers the addresses of proxies.
var proxyCount atomic.Int32

// freeAddr returns an unused loopback address. Each proxy has its own host, and other
// processes choose other hosts, so no port is taken twice.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	n, pid := proxyCount.Add(1), os.Getpid()
	l := must.Get(net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+pid>>8&0x3f, pid&0xff, n%250+1)))(tb)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// certificate is the certificate of all proxies and its key, in PEM.
var certificate = sync.OnceValues(func() (pair [2][]byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.com"}, DNSNames: []string{"example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return pair, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	pair[0] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pair[1] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	return pair, err
})

// writeCertificate writes the certificate and the key to one file each. The file of the
// certificate also has the key, as HAProxy wants.
func writeCertificate(tb testing.TB, dir string) (cert, key string) {
	tb.Helper()
	pair := must.Get(certificate())(tb)
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, content := range map[string][]byte{cert: bytes.Join(pair[:], nil), key: pair[1]} {
		must.OK(tb, os.WriteFile(file, content, 0o600))
	}
	return cert, key
}
