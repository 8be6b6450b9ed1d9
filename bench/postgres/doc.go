// Package postgres compares core/pgstore with core/redisstore, for docs/postgres.md:
//
//	go test -run - -bench . ./postgres
package postgres
