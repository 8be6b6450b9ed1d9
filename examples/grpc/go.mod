module github.com/weblimit/weblimit/examples/grpc

go 1.25.0

require (
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.28.0
	github.com/redis/go-redis/v9 v9.5.5
	github.com/weblimit/weblimit v0.0.0
	github.com/weblimit/weblimit/grpclimit v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260209200024-4cfbd4190f57
	google.golang.org/grpc v1.80.0
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260209200024-4cfbd4190f57 // indirect
)

replace (
	github.com/weblimit/weblimit => ../..
	github.com/weblimit/weblimit/grpclimit => ../../grpclimit
)
