module github.com/weblimit/weblimit/examples/grpc

go 1.26.0

require (
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.33.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/weblimit/weblimit v0.0.0
	github.com/weblimit/weblimit/grpclimit v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261104224025-d1e00e9f33ab
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20261026165753-2ffab32bce7e // indirect
)

replace (
	github.com/weblimit/weblimit => ../..
	github.com/weblimit/weblimit/grpclimit => ../../grpclimit
)
