package gateways

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/proxies"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	binaries "github.com/weblimit/weblimit/internal/test/program"
)

// behindTyk is the plugin in a server that calls it as Tyk does.
type behindTyk struct{ addr string }

func (f behindTyk) request(t *testing.T, from, path string, header ...string) *answer {
	t.Helper()
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	transport := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", f.addr) }}
	defer transport.CloseIdleConnections()
	q := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.com"+path, nil))(t)
	for pair := range slices.Chunk(header, 2) {
		q.Header[http.CanonicalHeaderKey(pair[0])] = []string{pair[1]}
	}
	res := must.Get((&http.Client{Transport: transport, Timeout: patience}).Do(q))(t)
	defer res.Body.Close()
	return &answer{res, string(must.Get(io.ReadAll(res.Body))(t))}
}

func (r *recipe) startTyk(t *testing.T, limits, away string) (front, *limiter) {
	t.Helper()
	l, dir := startFor(t, limits), child.Dir(t)
	// Without the bound of time: a limiter is away that a busy machine keeps from running.
	plugin := strings.NewReplacer("func main() {}\n", "", "300 * time.Millisecond", "time.Minute").Replace(r.read(t, "weblimit.go"))
	must.OK(t, os.WriteFile(filepath.Join(dir, "weblimit.go"), []byte(plugin), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "main.go"), must.Get(os.ReadFile("testdata/recipes/tyk/main.go.txt"))(t), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module tyk\n\ngo 1.24\n"), 0o600))
	must.OK(t, binaries.Build(dir, dir, "."))
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }))
	t.Cleanup(app.Close)
	cmd := exec.Command(filepath.Join(dir, "tyk"))
	addr := proxies.FreeAddr(t)
	cmd.Env = append(os.Environ(), "ADDR="+addr, "APP="+app.Listener.Addr().String(),
		"WEBLIMIT_URL=http://"+l.addr+"/v1/auth/api", "WEBLIMIT_TOKEN="+token, "WEBLIMIT_AWAY="+away)
	child.Serve(t, cmd, func(string) error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	return behindTyk{addr}, l
}
