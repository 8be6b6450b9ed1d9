package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	weblimitd "github.com/weblimit/weblimit/cmd/weblimitd"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// daemon is the binary that the tests run, and asEntry a link to it, as an image has it.
var daemon, asEntry string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	wait.Beside(8)
	dir, err := os.MkdirTemp("", "weblimitd")
	if err == nil {
		defer os.RemoveAll(dir)
		daemon = filepath.Join(dir, "weblimitd")
		err = program.Build(dir, ".", ".")
	}
	if err == nil {
		asEntry = filepath.Join(dir, "ratelimit")
		err = os.Symlink(daemon, asEntry)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return pgtest.Main(redisTests{m})
}

// redisTests runs the tests, and stops their Redis servers.
type redisTests struct{ m *testing.M }

func (r redisTests) Run() int { return redistest.Main(r.m) }

// onePolicy is a policy file with a version and a quota. Its store has a minute, and its window hardly
// ever ends in a test.
func onePolicy(version string, quota int) string {
	return fmt.Sprintf("version: %q\npolicies:\n  api:\n    timeout: 1m\n    limits:\n      client: {limit: %d/10000h fixed, by: ip}\n", version, quota)
}

// write writes a file into the test's folder, and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	rewrite(t, path, text)
	return path
}

// rewrite replaces a file as a whole.
func rewrite(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path+".new", []byte(text), 0o600))
	must.OK(t, os.Rename(path+".new", path))
}

// instance is a running weblimitd.
type instance struct {
	cmd      *exec.Cmd
	log      *child.Output
	ended    chan struct{}
	data     string // where it listens
	admin    string
	grpc     string
	metrics  string
	policy   string // the file
	adminURL string
	client   *http.Client // of the admin listener
}

// start starts weblimitd on free ports and waits until it serves. Without --policy it has one of 5 requests.
func start(t *testing.T, env []string, args ...string) *instance {
	t.Helper()
	return startWith(t, func(*exec.Cmd) {}, env, args...)
}

func has(args []string, flag string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") })
}

func startWith(t *testing.T, prepare func(*exec.Cmd), env []string, args ...string) *instance {
	t.Helper()
	policy := ""
	for _, unless := range [][]string{
		{"--listen", "127.0.0.1:0"},
		{"--admin-listen", "unix:" + filepath.Join(child.Dir(t), "admin.sock")},
		{"--drain-delay", "0s"},
		{"--header-timeout", "1m", "--read-timeout", "5m"}, // or a caller that has no processor for five seconds loses its connection
		{"--log-format", "json"},
	} {
		if !has(args, unless[0]) {
			args = append(args, unless...)
		}
	}
	if has(args, "--envoy-config") && !has(args, "--envoy-timeout") {
		args = append(args, "--envoy-timeout", "1m") // or Redis, which has no processor for a tenth of a second, is away
	}
	if !has(args, "--policy") {
		policy = write(t, "limits.yaml", onePolicy("1", 5))
		args = append(args, "--policy", policy)
	}
	cmd := exec.Command(daemon, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}, env...)
	prepare(cmd)
	in := launch(t, cmd)
	in.policy = policy
	return in
}

// launch starts a command that logs as JSON, and waits until it serves.
func launch(t *testing.T, cmd *exec.Cmd) *instance {
	t.Helper()
	in := &instance{cmd: cmd, log: new(child.Output), ended: make(chan struct{})}
	in.cmd.Stdout, in.cmd.Stderr = in.log, in.log
	in.cmd.Env = append(in.cmd.Env, program.Races)
	must.OK(t, child.Start(in.cmd))
	go func() {
		_ = in.cmd.Wait()
		close(in.ended)
	}()
	t.Cleanup(func() {
		_ = in.cmd.Process.Kill()
		<-in.ended
		if strings.Contains(in.log.String(), "DATA RACE") {
			t.Error("a data race")
		}
		if t.Failed() {
			t.Logf("%s", in.log)
		}
	})
	wait.Until(t, "it serves", func() bool {
		select {
		case <-in.ended:
			t.Fatalf("it has ended: %s", in.log)
		default:
		}
		return strings.Contains(in.log.String(), "weblimitd: serving")
	})
	line := in.line(t, "weblimitd: serving")
	in.data, in.admin, in.grpc, in.metrics = fmt.Sprint(line["data"]), fmt.Sprint(line["admin"]), fmt.Sprint(line["grpc"]), fmt.Sprint(line["metrics"])
	in.adminURL, in.client = "http://"+in.admin, &http.Client{Timeout: time.Minute}
	if path, ok := strings.CutPrefix(in.admin, "unix:"); ok {
		in.adminURL, in.client = "http://localhost", unixClient(path)
	}
	return in
}

func unixClient(path string) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

// line returns the last line of the log with a message.
func (in *instance) line(t *testing.T, message string) map[string]any {
	t.Helper()
	var found map[string]any
	for text := range strings.SplitSeq(in.log.String(), "\n") {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
			found = line
		}
	}
	if found == nil {
		t.Fatalf("no line %q in the log: %s", message, in.log)
	}
	return found
}

func (in *instance) signal(t *testing.T, s os.Signal) {
	t.Helper()
	must.OK(t, in.cmd.Process.Signal(s))
}

// stop ends the process by SIGTERM, and returns its exit code.
func (in *instance) stop(t *testing.T) int {
	t.Helper()
	in.signal(t, syscall.SIGTERM)
	return in.exit(t)
}

// exit waits until the process ends.
func (in *instance) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-in.ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
	return in.cmd.ProcessState.ExitCode()
}

// get asks the admin listener.
func (in *instance) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	return in.do(t, http.MethodGet, path)
}

func (in *instance) do(t *testing.T, method, path string, fields ...string) (status int, body string) {
	t.Helper()
	status, body, err := in.try(method, path, fields...)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func (in *instance) try(method, path string, fields ...string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(context.Background(), method, in.adminURL+path, nil)
	if err != nil {
		return 0, "", err
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return ask(in.client, r)
}

func ask(client *http.Client, r *http.Request) (status int, body string, err error) {
	response, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// metric returns the value of a series.
func (in *instance) metric(t *testing.T, series string) string {
	t.Helper()
	_, text := in.get(t, "/metrics")
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return found[1]
}

// run runs weblimitd to its end.
func run(t *testing.T, env []string, args ...string) (code int, out string) {
	t.Helper()
	return runAs(t, daemon, env, args...)
}

// runAs runs it under another name.
func runAs(t *testing.T, name string, env []string, args ...string) (code int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), program.Races}, env...)
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// alone is held by who runs weblimitd in this process: it sets the logger of the process, and that of go-redis.
var alone sync.Mutex

// inside is run in this process, which takes a fraction of the time, for what does not serve.
func inside(env []string, args ...string) (code int, out string) {
	alone.Lock()
	defer alone.Unlock()
	var text strings.Builder
	code = weblimitd.Command(append([]string{"weblimitd"}, args...), env, &text, &text)
	return code, text.String()
}

// asRatelimit is run in this process under the name of envoyproxy/ratelimit.
func asRatelimit(env []string, args ...string) (code int, out string) {
	alone.Lock()
	defer alone.Unlock()
	var text strings.Builder
	code = weblimitd.Command(append([]string{"/bin/ratelimit"}, args...), env, &text, &text)
	return code, text.String()
}

// passes takes what a command did, which is to succeed and say something.
func passes(t *testing.T, say string) func(code int, out string) {
	t.Helper()
	return func(code int, out string) {
		t.Helper()
		if code != 0 || !strings.Contains(out, say) {
			t.Errorf("exit code %d, want 0 and %q:\n%s", code, say, out)
		}
	}
}

// fails takes what a command did, which is to fail and say why.
func fails(t *testing.T, why string) func(code int, out string) {
	t.Helper()
	return func(code int, out string) {
		t.Helper()
		if code == 0 || !strings.Contains(out, why) {
			t.Errorf("exit code %d, want another than 0 and %q:\n%s", code, why, out)
		}
	}
}

func wants(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}
