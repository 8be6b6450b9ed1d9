//go:build unix

package main_test

import "syscall"

// openFiles returns how many files and connections the process may open, most at most.
func openFiles(most int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0
	}
	return int(min(uint64(files.Cur), uint64(most))) //nolint:unconvert // FreeBSD's is signed
}
