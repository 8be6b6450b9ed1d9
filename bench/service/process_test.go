//go:build linux

package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// process is a running program whose use of CPU and memory can be read.
type process struct{ pid int }

// start starts a program, which ends with the test, and returns once ready, which gets what it has written, is true.
func start(t testing.TB, cmd *exec.Cmd, ready func(written string) bool) process {
	t.Helper()
	return process{child.Serve(t, cmd, func(written string) error {
		if !ready(written) {
			return errors.New("it is not ready")
		}
		return nil
	}).Pid()}
}

// redisProcess is the process of a Redis server.
func redisProcess(t testing.TB, s *redistest.Server) process {
	t.Helper()
	info := must.Get(s.Client(t).Info(t.Context(), "server").Result())(t)
	_, after, _ := strings.Cut(info, "process_id:")
	pid := must.Get(strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0])))(t)
	return process{pid}
}

// stat returns a field of /proc/[pid]/stat, by its number in proc(5).
func (p process) stat(n int) (value int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may have spaces
	if fields := strings.Fields(rest); len(fields) > n-3 {
		value, _ = strconv.ParseInt(fields[n-3], 10, 64)
	}
	return value
}

// cpu returns the CPU time that the process has used, in user and system mode.
func (p process) cpu() time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100
	return time.Duration(p.stat(14)+p.stat(15)) * tick
}

// ownCPU is that of this process.
func ownCPU() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// rss returns the memory of the process.
func (p process) rss() int64 { return p.stat(24) * int64(os.Getpagesize()) }

// files returns the number of its open file descriptors.
func (p process) files() int {
	names, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	return len(names)
}

// daemon is a running weblimitd.
type daemon struct {
	process
	data, grpc, admin string // addresses; admin is the path of a socket
	operator          *http.Client
}

const policyFile = `policies:
  api:
    timeout: 1m
    limits:
      client: {limit: 4000000000/hour fixed, by: ip}
`

const envoyFile = `domain: edge
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 4000000000}}
`

// startDaemon starts weblimitd with the policy above, unless there is another, and Envoy's file.
func startDaemon(t testing.TB, listen string, args ...string) *daemon {
	t.Helper()
	dir := child.Dir(t)
	write(t, filepath.Join(dir, "envoy", "edge.yaml"), envoyFile)
	if !strings.Contains(strings.Join(args, " "), "--policy") {
		write(t, filepath.Join(dir, "limits.yaml"), policyFile)
		args = append(args, "--policy", filepath.Join(dir, "limits.yaml"))
	}
	d := &daemon{admin: filepath.Join(dir, "admin.sock")}
	cmd := exec.Command(weblimitd, append([]string{
		"--listen", listen, "--admin-listen", "unix:" + d.admin, "--grpc-listen", "127.0.0.1:0",
		"--envoy-config", filepath.Join(dir, "envoy"), "--log-format", "json", "--drain-delay", "0s", "--pprof",
	}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), program.Races}
	var line struct{ Msg, Data, GRPC string }
	d.process = start(t, cmd, func(written string) bool {
		for text := range strings.SplitSeq(written, "\n") {
			if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "weblimitd: serving" {
				return true
			}
		}
		return false
	})
	d.data, d.grpc = line.Data, line.GRPC
	d.operator = &http.Client{Timeout: 2 * time.Minute, Transport: dialing("unix", d.admin)}
	return d
}

// ask asks the admin listener.
func (d *daemon) ask(method, path string) (status int, body string, err error) {
	r, err := http.NewRequest(method, "http://localhost"+path, nil)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Weblimit-Inspect", "1")
	response, err := d.operator.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// write replaces a file as a whole.
func write(t testing.TB, path, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.OK(t, os.WriteFile(path+".new", []byte(text), 0o600))
	must.OK(t, os.Rename(path+".new", path))
}

// freePort returns a port that is free now, and below those of outgoing connections, of which one could
// take it before the server does.
func freePort(t testing.TB) int {
	t.Helper()
	for try := 1; ; try++ {
		port := 8000 + rand.IntN(2000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
		if try == 20 {
			t.Fatal(err)
		}
	}
}
