module github.com/weblimit/weblimit/examples/service/server

go 1.25.0

replace (
	github.com/weblimit/weblimit => ../../..
	github.com/weblimit/weblimit/policy => ../../../policy
	github.com/weblimit/weblimit/service => ../../../service
)

require (
	github.com/weblimit/weblimit v0.0.0
	github.com/weblimit/weblimit/policy v0.0.0
	github.com/weblimit/weblimit/service v0.0.0
)

require (
	github.com/felixge/httpsnoop v1.1.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
)
