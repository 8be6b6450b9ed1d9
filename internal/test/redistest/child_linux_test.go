package redistest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// started is a server as the process below tells of it.
type started struct {
	Pid int
	Dir string
}

// starter starts servers, says which, and ends with its input. The tests below watch what becomes of them.
var starter = child.NewRole("starter", func(t *testing.T, parent *child.Parent, _ struct{}) {
	left, err := start(unixSocket, nil) // as if its test had not stopped it
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Server{Shared(t), left} {
		parent.Send(started{s.cmd.Process.Pid, s.dir})
	}
	parent.Wait()
})

// TestChild is that process.
func TestChild(t *testing.T) { child.Run(t) }

// startServers starts that process, and returns its servers.
func startServers(t *testing.T) (p *child.Process, servers [2]started) {
	t.Helper()
	requireBinary(t)
	p = starter.Start(t, struct{}{})
	for i := range servers {
		servers[i] = child.Receive[started](t, p)
	}
	return p, servers
}

func TestMainStopsEveryServer(t *testing.T) {
	t.Parallel()
	p, servers := startServers(t)
	p.Close()
	p.Wait(t)
	for _, s := range servers {
		if alive(s.Pid) {
			t.Errorf("server %d runs on", s.Pid)
		}
		if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its directory: %v, want %v", err, os.ErrNotExist)
		}
	}
}

func TestServersDieWithAKilledTestProcess(t *testing.T) {
	t.Parallel()
	p, servers := startServers(t)
	p.Kill()
	for _, s := range servers {
		wait.Until(t, "a server has ended with its test process", func() bool { return !alive(s.Pid) })
		_ = os.RemoveAll(s.Dir) // nobody else can
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
	time.Sleep(100 * time.Millisecond) // nothing tells that it does not die
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
