package main_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// status asks a path of a listener.
func status(t *testing.T, client *http.Client, url string, fields ...string) int {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	code, _, err := ask(client, r)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// A caller needs a token, where there are any; several are valid, and they change while it serves.
func TestTokens(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens", "first-token-first\n# the next one\nsecond-token-second\n")
	in := start(t, []string{"WEBLIMIT_TOKENS=environment-token"}, "--tokens-file", file, "--listen", "0.0.0.0:0")
	url := "http://127.0.0.1:" + in.data[strings.LastIndexByte(in.data, ':')+1:] + "/nothing"
	for name, c := range map[string]struct {
		fields []string
		want   int
	}{
		"none":                {nil, 401},
		"wrong":               {[]string{"Authorization", "Bearer first-token-firsT"}, 401},
		"empty":               {[]string{"Authorization", "Bearer "}, 401},
		"another scheme":      {[]string{"Authorization", "Basic first-token-first"}, 401},
		"twice":               {[]string{"Authorization", "Bearer first-token-first", "Authorization", "Bearer first-token-first"}, 401},
		"the first":           {[]string{"Authorization", "Bearer first-token-first"}, 404},
		"the second":          {[]string{"Authorization", "bearer second-token-second"}, 404},
		"of the environment":  {[]string{"Authorization", "Bearer environment-token"}, 404},
		"in the other header": {[]string{"Weblimit-Token", "first-token-first"}, 404},
		"both, one wrong":     {[]string{"Weblimit-Token", "wrong", "Authorization", "Bearer first-token-first"}, 401},
	} {
		check.Equal(t, name, status(t, http.DefaultClient, url, c.fields...), c.want)
	}
	check.Equal(t, "readiness without a token", status(t, http.DefaultClient, strings.TrimSuffix(url, "/nothing")+"/readyz"), 200)
	rewrite(t, file, "second-token-second\n")
	in.signal(t, syscall.SIGHUP)
	wait.Until(t, "the first token is refused", func() bool {
		return status(t, http.DefaultClient, url, "Authorization", "Bearer first-token-first") == 401
	})
	rewrite(t, file, "short\n") // wrong: nothing changes
	in.signal(t, syscall.SIGHUP)
	wait.Until(t, "the wrong file is noted", func() bool {
		n := in.metric(t, `weblimitd_reloads_total{result="error",what="tokens"}`)
		return n != "" && n != "0"
	})
	check.Equal(t, "after a wrong file", status(t, http.DefaultClient, url, "Authorization", "Bearer second-token-second"), 404)
	rewrite(t, file, "third-token-third\n")
	wait.Until(t, "the third token is taken, without a signal", func() bool {
		return status(t, http.DefaultClient, url, "Authorization", "Bearer third-token-third") == 404
	})
	if got := in.metric(t, `weblimitd_unauthenticated_total{listener="data"}`); got == "" || got == "0" {
		t.Errorf("weblimitd_unauthenticated_total is %q", got)
	}
}

// Certificates change while it serves: no connection is lost, and a broken file changes nothing.
func TestCertificatesChange(t *testing.T) {
	t.Parallel()
	by := authority(t, "ca")
	f := filesIn(t.TempDir())
	by.sign(t, f, "old.example", time.Hour)
	in := start(t, nil, "--tls-cert", f.cert, "--tls-key", f.key)
	name := func() string {
		c := must.Get(tls.Dial("tcp", in.data, &tls.Config{RootCAs: by.pool(), ServerName: "localhost"}))(t)
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	open := must.Get(tls.Dial("tcp", in.data, &tls.Config{RootCAs: by.pool(), ServerName: "localhost"}))(t)
	defer open.Close()
	answers := func() {
		t.Helper()
		must.Do(io.WriteString(open, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
		response, err := http.ReadResponse(bufio.NewReader(open), nil)
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("the open connection: %v", err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	answers()
	if got := name(); got != "old.example" {
		t.Fatal(got)
	}
	must.OK(t, os.WriteFile(f.cert, []byte("broken"), 0o600))
	wait.Until(t, "the broken file is noted, by looking at it", func() bool {
		n := in.metric(t, `weblimitd_reloads_total{result="error",what="certificates"}`)
		return n != "" && n != "0"
	})
	check.Equal(t, "after a broken file", name(), "old.example")
	wants(t, in.log.String(), "not reloaded, all stays as it was")
	by.sign(t, f, "ended.example", -time.Hour)
	in.signal(t, syscall.SIGHUP)
	wait.Until(t, "one that has ended is refused", func() bool {
		return strings.Contains(in.log.String(), "has ended at")
	})
	by.sign(t, f, "new.example", 48*time.Hour)
	in.signal(t, syscall.SIGHUP)
	wait.Until(t, "the new certificate is served", func() bool { return name() == "new.example" })
	answers()
	if got := in.metric(t, `weblimitd_certificate_end_timestamp_seconds{listener="data"}`); got == "" {
		t.Error("no metric of the certificate's end")
	}
	old := &tls.Config{RootCAs: by.pool(), ServerName: "localhost", MaxVersion: tls.VersionTLS11} //nolint:gosec // it must be refused
	if _, err := tls.Dial("tcp", in.data, old); err == nil {
		t.Error("TLS 1.1 is served")
	}
}

// Callers may use HTTP/2, over TLS and without.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	by := authority(t, "ca")
	f := certificate(t, by, "localhost")
	for scheme, args := range map[string][]string{"http": nil, "https": {"--tls-cert", f.cert, "--tls-key", f.key}} {
		in := start(t, nil, args...)
		var protocols http.Protocols
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
		client := &http.Client{Transport: &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{RootCAs: by.pool()}}}
		response, err := client.Get(scheme + "://" + in.data + "/readyz")
		if err != nil || response.ProtoMajor != 2 || response.StatusCode != 200 {
			t.Errorf("%s: %v %v", scheme, response, err)
			continue
		}
		response.Body.Close()
		client.CloseIdleConnections()
	}
}

// A page in a browser on this machine can't ask.
func TestPagesAreNotCallers(t *testing.T) {
	t.Parallel()
	in := start(t, nil, "--envoy-config", envoyFolder(t), "--grpc-listen", "off")
	for _, path := range []string{"/json", "/v1/check", "/nothing"} {
		for _, field := range []string{"Origin", "Sec-Fetch-Site"} {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+in.data+path, strings.NewReader("{}"))
			r.Header.Set(field, map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}[field])
			if code, body, err := ask(http.DefaultClient, r); code != http.StatusForbidden || err != nil {
				t.Errorf("%s with %s: %d %s %v", path, field, code, body, err)
			}
		}
	}
}

// A page that has its own name resolve to this machine sends no Origin, and can set all that gateways set.
func TestPagesThatRebindAreNotGateways(t *testing.T) {
	t.Parallel()
	askAs := func(url, host, token string) int {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		r.Host = host
		r.Header = http.Header{"X-Forwarded-For": {"192.0.2.7"}, "X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/"}}
		if token != "" {
			r.Header.Set("Weblimit-Token", token)
		}
		code, _, err := ask(http.DefaultClient, r)
		must.OK(t, err)
		return code
	}
	in := start(t, nil, "--admin-listen", "127.0.0.1:0", "--admin-hosts", "limits.example")
	for host, decided := range map[string]bool{"evil.example:9180": false, "weblimit": true, "127.0.0.1": true, "localhost:9180": true} {
		for _, path := range []string{"/v1/auth/api", "/v1/ext_authz/api/x"} {
			if got := askAs("http://"+in.data+path, host, ""); got != 500 != decided {
				t.Errorf("%s, %s: %d", path, host, got)
			}
		}
	}
	wants(t, in.log.String(), "set Host to weblimit")
	for host, want := range map[string]int{"evil.example:9181": 421, "weblimitd:9181": 200, "10.0.0.5:9181": 200, "limits.example": 200} {
		if got := askAs(in.adminURL+"/metrics", host, ""); got != want {
			t.Errorf("/metrics, %s: %d, want %d", host, got, want)
		}
	}
	const token = "a-token-of-this-test"
	in = start(t, []string{"WEBLIMIT_TOKENS=" + token})
	if got := askAs("http://"+in.data+"/v1/auth/api", "evil.example", token); got != 200 {
		t.Errorf("with a token, which no page has: %d", got)
	}
}

// With a client CA, callers need a certificate of it, with one of the names.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	by, other := authority(t, "ours"), authority(t, "theirs")
	f := certificate(t, by, "localhost")
	in := start(t, nil, "--listen", "0.0.0.0:0", "--tls-cert", f.cert, "--tls-key", f.key, "--tls-client-ca", f.ca, "--tls-client-names", "gateway.example,spiffe://x/y",
		"--admin-listen", "127.0.0.1:0", "--admin-tls-cert", f.cert, "--admin-tls-key", f.key, "--admin-tls-client-ca", f.ca)
	port := in.data[strings.LastIndexByte(in.data, ':')+1:]
	dial := func(addr string, certs ...tls.Certificate) error {
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: by.pool(), Certificates: certs}, DisableKeepAlives: true,
		}}
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+addr, nil)
		code, _, err := ask(client, r)
		if err == nil && code != 404 && code != 200 {
			return fmt.Errorf("status %d", code)
		}
		return err
	}
	if err := dial("localhost:" + port); err == nil {
		t.Error("without a certificate")
	}
	if err := dial("localhost:"+port, certificate(t, other, "gateway.example").pair(t)); err == nil {
		t.Error("a certificate of another authority")
	}
	if err := dial("localhost:"+port, certificate(t, by, "app.example").pair(t)); err == nil {
		t.Error("a certificate with another name")
	}
	gateway := certificate(t, by, "gateway.example")
	if err := dial("localhost:"+port, gateway.pair(t)); err != nil {
		t.Errorf("the gateway: %v", err)
	}
	if err := dial(in.admin+"/status", gateway.pair(t)); err != nil {
		t.Errorf("an operator by certificate: %v", err)
	}
	// The commands find their certificate by the settings.
	settings := []string{"--admin-tls-cert", f.cert, "--admin-tls-key", f.key}
	passes(t, "")(run(t, nil, append([]string{"healthcheck", "https://" + in.admin}, settings...)...))
	fails(t, "another certificate")(run(t, nil, "healthcheck", "https://"+in.admin, "--admin-tls-cert", gateway.cert, "--admin-tls-key", gateway.key))
	// Another authority takes the place of this one: who was let in is not any more, over no connection that is open.
	open := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: by.pool(), Certificates: []tls.Certificate{gateway.pair(t)}}, MaxConnsPerHost: 1,
	}}
	t.Cleanup(open.CloseIdleConnections)
	conns := map[string]bool{}
	over := func(url string) int {
		trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { conns[url+c.Conn.LocalAddr().String()] = true }}
		r, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, url, nil)
		code, _, _ := ask(open, r) // a connection that is refused can be closed before its body was read
		return code
	}
	data, admin := "https://localhost:"+port, "https://"+in.admin+"/status"
	if a, b := over(data), over(admin); a != 404 || b != 200 {
		t.Errorf("before: %d and %d", a, b)
	}
	theirs := certificate(t, other, "gateway.example")
	must.OK(t, os.Rename(theirs.ca, f.ca))
	in.signal(t, syscall.SIGHUP)
	for _, url := range []string{data, admin} {
		wait.Until(t, "the connection that is open is refused", func() bool { return over(url) == 401 })
	}
	check.Equal(t, "connections that were needed for it", len(conns), 2)
	if got := over(data); got != 0 { // closed, and no new one
		t.Errorf("afterwards: %d", got)
	}
	wait.Until(t, "certificates of the old authority are refused", func() bool { return dial("localhost:"+port, gateway.pair(t)) != nil })
	if err := dial("localhost:"+port, theirs.pair(t)); err != nil {
		t.Errorf("a certificate of the new authority: %v", err)
	}
}

// A unix socket has its permissions from the start, replaces a stale one, and nothing else.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir := child.Dir(t)
	path := filepath.Join(dir, "data.sock")
	in := start(t, nil, "--listen", "unix:"+path, "--socket-mode", "0660", "--socket-group", fmt.Sprint(os.Getgid()))
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 || info.Mode().Type() != os.ModeSocket {
		t.Errorf("%v %v", info, err)
	}
	check.Equal(t, "its answer", status(t, unixClient(path), "http://localhost/nothing"), 404)
	// Another process must not take it.
	code, out := run(t, nil, "--policy", in.policy, "--listen", "unix:"+path, "--admin-listen", "off")
	if code == 0 || !strings.Contains(out, "another process listens there") {
		t.Errorf("%d %s", code, out)
	}
	check.Equal(t, "its answer after that", status(t, unixClient(path), "http://localhost/nothing"), 404)
	// Killed, it leaves its socket, which the next one replaces.
	in.signal(t, syscall.SIGKILL)
	in.exit(t)
	must.Do(os.Lstat(path))(t)
	in = start(t, nil, "--listen", "unix:"+path)
	check.Equal(t, "the answer of the next one", status(t, unixClient(path), "http://localhost/nothing"), 404)
	check.Equal(t, "exit code", in.stop(t), 0)
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	// A file that is no socket stays.
	must.OK(t, os.WriteFile(path, []byte("precious"), 0o600))
	fails(t, "is no socket")(run(t, nil, "--policy", in.policy, "--listen", "unix:"+path, "--admin-listen", "off"))
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Error("the file is gone")
	}
}

// activated starts weblimitd as systemd does, with listeners and names.
func activated(t *testing.T, listeners []*os.File, names string, env []string, args ...string) *instance {
	t.Helper()
	return startWith(t, func(cmd *exec.Cmd) { activate(cmd, listeners, names) }, env, args...)
}

// activate has a shell set LISTEN_PID, which only the process itself knows.
func activate(cmd *exec.Cmd, listeners []*os.File, names string) {
	cmd.ExtraFiles = listeners
	cmd.Env = append(cmd.Env, fmt.Sprint("LISTEN_FDS=", len(listeners)), "LISTEN_FDNAMES="+names)
	cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

func listenFile(t *testing.T) (*os.File, string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	f := must.Get(l.(*net.TCPListener).File())(t)
	addr := l.Addr().String()
	_ = l.Close() // f has a copy
	t.Cleanup(func() { _ = f.Close() })
	return f, addr
}

// Sockets of systemd are found by name, and one that nobody uses is an error.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	admin, adminAddr := listenFile(t)
	data, dataAddr := listenFile(t)
	in := activated(t, []*os.File{admin, data}, "admin:data", nil, "--listen", "systemd:data", "--admin-listen", "systemd:admin")
	if in.data != dataAddr || in.admin != adminAddr {
		t.Errorf("data %s, admin %s", in.data, in.admin)
	}
	check.Equal(t, "the answer of data", status(t, http.DefaultClient, "http://"+dataAddr+"/nothing"), 404)
	check.Equal(t, "the answer of admin", status(t, http.DefaultClient, "http://"+adminAddr+"/metrics"), 200)
	in.stop(t)
	for name, c := range map[string]struct{ names, want string }{
		"unused":     {"data:other", `systemd has passed sockets that no listener uses: "other"`},
		"misspelled": {"date:admin", `systemd has passed no socket "data", but "admin", "date"`},
		"twice":      {"data:data", `systemd has passed 2 sockets "data"`},
	} {
		cmd := exec.Command(daemon, "--policy", in.policy, "--listen", "systemd:data", "--admin-listen", "off")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), program.Races}
		activate(cmd, []*os.File{admin, data}, c.names)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
}

// listenAsSystemd returns a socket for NOTIFY_SOCKET, and what it has heard.
func listenAsSystemd(t *testing.T) (path string, heard *child.Output) {
	t.Helper()
	path = filepath.Join(child.Dir(t), "notify")
	l := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	t.Cleanup(func() { _ = l.Close() })
	heard = new(child.Output)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := l.Read(buf)
			if err != nil {
				return
			}
			fmt.Fprintf(heard, "%s\n", buf[:n])
		}
	}()
	return path, heard
}

// systemd hears when the service is ready, reloads and stops, and that it is alive.
func TestNotify(t *testing.T) {
	t.Parallel()
	socket, heard := listenAsSystemd(t)
	in := start(t, []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=1000000"})
	hears := func(all ...string) {
		t.Helper()
		for _, want := range all {
			wait.Until(t, "systemd hears "+want, func() bool { return strings.Contains(heard.String(), want) })
		}
	}
	hears("READY=1\nSTATUS=serving, policy 1#", "WATCHDOG=1")
	rewrite(t, in.policy, onePolicy("2", 5))
	in.signal(t, syscall.SIGHUP)
	hears("RELOADING=1\nMONOTONIC_USEC=", "STATUS=serving, policy 2#")
	in.stop(t)
	hears("STOPPING=1", "EXTEND_TIMEOUT_USEC=")
}
