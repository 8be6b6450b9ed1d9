//go:build unix

package gateways

import "syscall"

// The signals by which a process is stopped without ending it, and goes on.
const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)
