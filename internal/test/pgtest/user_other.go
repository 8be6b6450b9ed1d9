//go:build !unix

package pgtest

import "os/exec"

// Only Unix has a root that PostgreSQL refuses.

func asServer(*exec.Cmd) error { return nil }

func give(string) error { return nil }
