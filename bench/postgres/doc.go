// Package postgres compares core/pgstore with core/redisstore, for docs/postgres.md:
//
//	cd bench/postgres && go test -run - -bench .
package postgres
