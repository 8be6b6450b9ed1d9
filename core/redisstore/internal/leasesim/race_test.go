//go:build race

package leasesim_test

// race says that the race detector slows everything, in which a simulation, on
// one goroutine, has nothing to find.
const race = true
