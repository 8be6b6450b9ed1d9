//go:build !unix

package gateways

import "syscall"

// No process can be stopped here: sending these is an error.
const (
	stopSignal     = syscall.Signal(-1)
	continueSignal = syscall.Signal(-1)
)
