//go:build unix

package policy_test

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// The first signal.Notify of a process makes channels, which must not be those of a bubble of testing/synctest.
func init() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	signal.Stop(signals)
}

// Not parallel: the signal is the process's.
func TestSIGHUPReloads(t *testing.T) {
	from, set := sourceOf(t, simple(1), quiet())
	defer set.Watch(t.Context())()
	from.put(simple(2))
	must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	wait.Until(t, "a signal", func() bool { return set.Status().Version.Name == "v2" })
}
