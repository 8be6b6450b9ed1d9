// Package postgres compares core/pgstore with core/redisstore, for docs/run/postgres.md:
//
//	cd bench/postgres && go test -run - -bench .
package postgres
