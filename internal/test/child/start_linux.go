package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starts are run one after the other on a thread that lives as long as the process.
var starts = make(chan func())

var startThread = sync.OnceFunc(func() {
	go func() {
		runtime.LockOSThread() // never unlocked
		for f := range starts {
			f()
		}
	}()
})

// Start starts cmd such that the kernel kills it when this process dies, however it
// dies. The kernel takes the thread that forked for the parent, and the Go runtime ends
// threads as it likes: hence one thread of our own. Children of the child are not
// covered: start servers without workers. It may be called concurrently.
func Start(cmd *exec.Cmd) error {
	startThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := make(chan error, 1)
	starts <- func() { err <- cmd.Start() }
	return <-err
}
