// Package regions tests the bounds of limits over several regions, on real servers: three regions with a Redis each,
// two processes in each, a home Redis, and slow links to it. Processes decide for a dozen keys and write a
// journal of each decision, which survives them. Meanwhile links, servers, processes and clocks fail. In the end no key may
// have been granted more in any window, over all regions, than its quota and what the fault may add, and no less than
// floors and reachable pools allow.
//
//	go test -v -run 'TestFaults/a_region_is_cut_off' -seed 7 .
//	make regions FOR=10m                                         // random sequences of faults
package regions
