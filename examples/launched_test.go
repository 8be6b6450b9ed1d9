package examples_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// launched are the examples whose application is in a module of its own: what stands before a URL in what
// they print, and the status of a request to it without a password.
var launched = map[string]struct {
	before string
	status int
}{
	"observed": {"The page:", 401},
	"saas":     {"The page:", 401},
	"service":  {"  curl -i", 200},
}

// They still run from the root. What they start ends with them, without an error.
func TestLaunchedRunFromTheRoot(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a test can't send Ctrl-C there")
	}
	for name, tt := range launched {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, build(t, name))
			cmd.Dir = ".."
			cmd.Env = append(os.Environ(), "ADDR=127.0.0.1:0", "DATABASE_URL=", "REDIS_ADDR=", "REDIS_URL=")
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			cmd.WaitDelay = time.Minute
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var url string
			lines := bufio.NewScanner(stdout)
			for url == "" && lines.Scan() {
				if after, found := strings.CutPrefix(lines.Text(), tt.before); found {
					url = strings.Fields(after)[0]
				}
			}
			if status, _, _ := request(t, "GET", url); status != tt.status {
				t.Errorf("%s: %d, want %d", url, status, tt.status)
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			for lines.Scan() { // until it ends
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// Elsewhere they say where to run them.
func TestLaunchedRunInACloneOnly(t *testing.T) {
	t.Parallel()
	for name := range launched {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), build(t, name))
			cmd.Dir = t.TempDir()
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "in the root of a clone") {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
}
