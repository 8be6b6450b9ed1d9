// Package service measures where a limiter can live: in the application, as weblimitd that applications
// ask, behind nginx, and as Envoy's rate limit service beside envoyproxy/ratelimit. All ask the same Redis
// on the same machine, in turn.
//
//	make service-bench                        the tables of docs/choose/where.md
//	go test -run TestChecks -bench-service .  one of them
//	make service-soak SOAK=10m                weblimitd under churn
//
// It runs on Linux, whose /proc says what other processes use.
//
// The CPU time that a check takes of each process is steadier than checks per second where a machine has
// other work: compare that first, and ratios rather than numbers.
package service
