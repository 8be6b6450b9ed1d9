package gateways

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/proxies"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/must"
	binaries "github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// limits is the policy file of the tests.
const limits = `
defaults:
  bypass:
    - paths: [/healthz, /public/*]
policies:
  api:
    limits:
      client: {limit: 100/day, by: ip}
`

// fast has a limit that is never reached, for tests about something else.
const fast = `
policies:
  api:
    limits:
      client: {limit: 1000000000/day, by: ip}
`

// token is that of gateways that ask over TCP.
const token = "a-token-of-this-test"

// daemon is the path of weblimitd, which is built once.
var daemon = sync.OnceValues(func() (string, error) {
	return filepath.Join(built, "weblimitd"), binaries.Build(built, filepath.Join(documents.Root, "cmd/weblimitd"), ".")
})

// built is a directory for what is built.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "gateways"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	wait.Beside(6)
	code := m.Run()
	endShared()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

// limiterCommand returns the command of a limiter that serves gateways: on a unix socket, or on a TCP address
// those that have the token. With "tcp" they append 127.0.0.1 to X-Forwarded-For, with "tcp4" nothing.
func limiterCommand(tb testing.TB, network, addr, file string) *exec.Cmd {
	tb.Helper()
	path := must.Get(daemon())(tb)
	cmd := exec.Command(path, "--policy="+file, "--admin-listen=off", "--log-level=warn")
	if network == "unix" {
		cmd.Args = append(cmd.Args, "--listen=unix:"+addr)
	} else {
		cmd.Args = append(cmd.Args, "--listen="+addr)
		cmd.Env = append(os.Environ(), "WEBLIMIT_TOKENS="+token)
	}
	if network == "tcp" {
		cmd.Args = append(cmd.Args, "--gateway-proxies=127.0.0.1/32")
	}
	return cmd
}

// limiter is a limiter in a process of its own.
type limiter struct {
	network, addr, file string
	process             *child.Server // nil while it is stopped
	before              string        // what the processes before it have written
}

func startLimiter(tb testing.TB, network, dir, limits string) *limiter {
	tb.Helper()
	l := &limiter{network: network, addr: filepath.Join(dir, "gateway.sock"), file: filepath.Join(dir, "limits.yaml")}
	if network != "unix" {
		l.addr = proxies.FreeAddr(tb)
	}
	must.OK(tb, os.WriteFile(l.file, []byte(limits), 0o600))
	l.start(tb)
	return l
}

func (l *limiter) start(tb testing.TB) {
	tb.Helper()
	l.process = child.Serve(tb, limiterCommand(tb, l.network, l.addr, l.file), func(string) error {
		conn, err := net.Dial(l.network, l.addr)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}

func (l *limiter) stop() {
	l.process.Kill()
	l.before, l.process = l.before+l.process.Log(), nil
}

// log returns what the limiter has written.
func (l *limiter) log() string {
	if l.process == nil {
		return l.before
	}
	return l.before + l.process.Log()
}

// freeze stops the process without ending it: the system accepts connections, and nobody answers.
func (l *limiter) freeze(tb testing.TB) {
	tb.Helper()
	l.process.Signal(tb, stopSignal)
	wait.Until(tb, "the limiter has stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.process.Pid()))
		return err != nil || strings.Contains(string(stat), ") T ")
	})
}

func (l *limiter) thaw(tb testing.TB) {
	tb.Helper()
	l.process.Signal(tb, continueSignal)
}

// listenAddr returns the address for another server in the place of a limiter that is stopped.
func (l *limiter) listenAddr() string {
	if l.network == "unix" {
		_ = os.Remove(l.addr)
	}
	return l.addr
}
