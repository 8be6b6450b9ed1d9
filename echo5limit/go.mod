module github.com/weblimit/weblimit/echo5limit

go 1.25.0

require (
	github.com/labstack/echo/v5 v5.2.1
	github.com/weblimit/weblimit v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/felixge/httpsnoop v1.0.4 // indirect
	github.com/redis/go-redis/v9 v9.5.5 // indirect
	golang.org/x/time v0.14.0 // indirect
)

replace github.com/weblimit/weblimit => ../
