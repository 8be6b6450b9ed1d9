//go:build !race

// Package race tells tests whether the race detector is on.
package race

// Enabled says that the race detector is on: all takes ten times as long, and
// allocations are not the code's own.
const Enabled = false
