// Package prefetchsim simulates processes that prefetch quota of one store: up to
// thousands of them, with uneven load that moves from process to process, slow
// answers, processes that die with slices in hand, and clocks that differ. The
// slices are those of package prefetch. Only the store, the time and the load are
// simulated. Only its tests and the program in plot import it.
//
// A [Config] determines its simulation: equal ones have equal outcomes.
package prefetchsim
