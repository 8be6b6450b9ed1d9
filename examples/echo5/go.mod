module github.com/weblimit/weblimit/examples/echo5

go 1.26.0

require (
	github.com/labstack/echo/v5 v5.4.4
	github.com/redis/go-redis/v9 v9.23.0
	github.com/weblimit/weblimit v0.0.0
	github.com/weblimit/weblimit/echo5limit v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/time v0.15.0 // indirect
)

replace (
	github.com/weblimit/weblimit => ../..
	github.com/weblimit/weblimit/echo5limit => ../../echo5limit
)
