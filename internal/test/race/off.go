//go:build !race

// Package race reports to tests whether the race detector is on.
package race

// Enabled reports whether the race detector is on. With it, everything takes about ten
// times as long, and allocations include those of the detector.
const Enabled = false
