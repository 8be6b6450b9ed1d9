package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starts are run one by one on a thread that lives as long as the process.
var starts = make(chan func())

var startThread = sync.OnceFunc(func() {
	go func() {
		runtime.LockOSThread() // never unlocked
		for f := range starts {
			f()
		}
	}()
})

// Start starts cmd so that the kernel kills it when this process dies for any reason. The
// kernel regards the forking thread as the parent, and the Go runtime may end threads, so
// Start forks on one thread that it keeps. Children of cmd are not covered: run servers
// without workers, or whose workers end with them. Start keeps what else cmd.SysProcAttr
// says. It may be called concurrently.
func Start(cmd *exec.Cmd) error {
	startThread()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	err := make(chan error, 1)
	starts <- func() { err <- cmd.Start() }
	return <-err
}
