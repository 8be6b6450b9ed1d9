//go:build !race

package race

// Enabled reports whether the race detector is on. With it, everything takes about ten
// times as long, and allocations include those of the detector.
const Enabled = false
