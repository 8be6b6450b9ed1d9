package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helperEnv turns a run of this test binary into the process whose end the tests below watch.
const helperEnv = "REDISTEST_HELPER"

// TestHelperProcess is that process: it starts servers, says which, and ends with its input.
func TestHelperProcess(t *testing.T) {
	if os.Getenv(helperEnv) == "" {
		return // not a test: the others run it
	}
	left, err := start(unixSocket, nil) // as if its test had not stopped it
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Server{Shared(t), left} {
		fmt.Println("server", s.cmd.Process.Pid, s.dir)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// helper starts the helper process and returns what ends it, and its servers.
func helper(t *testing.T) (cmd *exec.Cmd, stdin io.Closer, pids []int, dirs []string) {
	t.Helper()
	requireBinary(t)
	cmd = exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); len(pids) < 2 && lines.Scan(); {
		var pid int
		var dir string
		if _, err := fmt.Sscanf(lines.Text(), "server %d %s", &pid, &dir); err == nil {
			pids, dirs = append(pids, pid), append(dirs, dir)
		}
	}
	if len(pids) < 2 {
		_ = cmd.Process.Kill()
		t.Fatalf("the helper named the servers %v: %v", pids, cmd.Wait())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return cmd, in, pids, dirs
}

func TestMainStopsEveryServer(t *testing.T) {
	t.Parallel()
	cmd, stdin, pids, dirs := helper(t)
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, pid := range pids {
		if alive(pid) {
			t.Errorf("server %d runs on", pid)
		}
		if _, err := os.Stat(dirs[i]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its directory: %v, want %v", err, os.ErrNotExist)
		}
	}
}

func TestServersDieWithAKilledTestProcess(t *testing.T) {
	t.Parallel()
	cmd, _, pids, dirs := helper(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	for i, pid := range pids {
		for deadline := time.Now().Add(awaitTimeout); alive(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("server %d outlives its test process", pid)
			}
		}
		_ = os.RemoveAll(dirs[i]) // nobody else can
	}
}

func TestServersOutliveTheThreadThatAskedForThem(t *testing.T) {
	t.Parallel()
	requireBinary(t)
	started := make(chan *Server)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		s, err := start(unixSocket, nil)
		if err != nil {
			t.Error(err)
		}
		started <- s
	}()
	s := <-started
	if s == nil {
		return
	}
	defer s.Stop()
	time.Sleep(100 * time.Millisecond)
	if s.exited() {
		t.Errorf("the server died with a thread\n%s", s.logTail())
	}
}

// alive reports whether the process runs. One that is dead and not waited for yet, which is
// up to whoever inherited it, does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
