// Package prefetchsim simulates processes that lease quota of one store: up to
// thousands of them, with uneven load that moves, slow answers, processes that
// die with leases out, and clocks that differ. The leases are the ones of package
// lease; only the store, the time and the load are made up. Nobody imports it but
// its tests and the program in plot.
//
// A simulation is determined by its [Config]: equal ones have equal outcomes.
package prefetchsim
