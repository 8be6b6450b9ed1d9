//go:build !linux

package redistest

import "os/exec"

// startChild starts cmd. Only Linux can tie its life to ours: elsewhere it outlives a test
// process that is killed.
func startChild(cmd *exec.Cmd) error { return cmd.Start() }
