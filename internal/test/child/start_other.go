//go:build !linux

package child

import "os/exec"

// Start starts cmd. Only Linux can tie its life to ours: elsewhere it outlives a test
// process that is killed.
func Start(cmd *exec.Cmd) error { return cmd.Start() }
