//go:build !linux

package child

import "os/exec"

// Start starts cmd. Only Linux ties its life to this process. Elsewhere cmd outlives a
// test process that is killed.
func Start(cmd *exec.Cmd) error { return cmd.Start() }
