//go:build unix

package policy

import (
	"os"
	"syscall"
)

// hangups are the signals that reload a file.
var hangups = []os.Signal{syscall.SIGHUP}
