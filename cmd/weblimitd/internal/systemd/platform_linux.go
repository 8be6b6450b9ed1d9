package systemd

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// monotonic returns the monotonic clock in microseconds, by which systemd knows which reload is meant.
func monotonic() string {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return "0"
	}
	return strconv.FormatInt(t.Nano()/1000, 10)
}

// closeOnExec keeps a file from the children of this process.
func closeOnExec(fd int) { unix.CloseOnExec(fd) }
