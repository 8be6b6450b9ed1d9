//go:build !linux

package systemd

// monotonic is for systemd, which runs on Linux alone.
func monotonic() string { return "0" }

// closeOnExec is the same.
func closeOnExec(int) {}
