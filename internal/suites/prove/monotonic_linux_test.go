package prove

import "golang.org/x/sys/unix"

// monotonic returns nanoseconds of a clock that all processes of the machine share and nobody can set.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
