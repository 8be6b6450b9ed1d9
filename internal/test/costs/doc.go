// Package costs guards what a check over Redis costs: allocations, round trips, calls of the script,
// commands of Redis, and bytes on the wire. None of them depends on how busy the machine is, so that a
// test can compare them with the table in costs.txt, which times would not allow.
//
//	make bench-guard             compare, and run the tests of the adapters' allocations
//	make bench-guard UPDATE=1    write the table, after a change that is meant
package costs
