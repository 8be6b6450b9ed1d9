module github.com/weblimit/weblimit/service/envoy

go 1.25.0

require (
	github.com/envoyproxy/go-control-plane/envoy v1.38.0
	github.com/redis/go-redis/v9 v9.5.5
	github.com/weblimit/weblimit v0.0.0
	github.com/weblimit/weblimit/policy v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
	google.golang.org/grpc v1.80.0
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cncf/xds/go v0.0.0-20251210132809-ee656c7534f5 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260209200024-4cfbd4190f57 // indirect
)

replace github.com/weblimit/weblimit => ../../

replace github.com/weblimit/weblimit/policy => ../../policy
