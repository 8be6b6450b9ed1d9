//go:build unix

package policy_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/internal/archivetest"
)

// Not parallel: the signal is the process's.
func TestSIGHUPReloads(t *testing.T) {
	from := &source{}
	text := simple(1)
	from.text.Store(&text)
	set, err := policy.From(from, quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer set.Watch(t.Context())()
	text2 := simple(2)
	from.text.Store(&text2)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	archivetest.Until(t, "a signal", func() bool { return set.Status().Version.Name == "v2" })
}
