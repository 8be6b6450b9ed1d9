//go:build unix

package main

import (
	"os"
	"syscall"
)

// stop stops a process until goOn. Both fail only on a process that has ended.
func stop(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) }

func goOn(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }
