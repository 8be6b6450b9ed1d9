module github.com/weblimit/weblimit

go 1.25.0

require (
	github.com/felixge/httpsnoop v1.0.4
	github.com/redis/go-redis/v9 v9.5.5
)

require (
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
)
