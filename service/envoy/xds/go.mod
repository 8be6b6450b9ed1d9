module github.com/weblimit/weblimit/service/envoy/xds

go 1.25.0

require (
	github.com/envoyproxy/go-control-plane/envoy v1.38.0
	github.com/envoyproxy/go-control-plane/ratelimit v0.1.1-0.20260629194254-5581fade6089
	github.com/weblimit/weblimit v0.0.0
	github.com/weblimit/weblimit/policy v0.0.0
	github.com/weblimit/weblimit/service/envoy v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
	google.golang.org/grpc v1.81.1
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2 // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260226221140-a57be14db171 // indirect
)

replace (
	github.com/weblimit/weblimit => ../../..
	github.com/weblimit/weblimit/policy => ../../../policy
	github.com/weblimit/weblimit/service/envoy => ../
)
