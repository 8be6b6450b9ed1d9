module github.com/weblimit/weblimit/internal/test/policyschema

go 1.25.0

replace (
	github.com/weblimit/weblimit => ../../..
	github.com/weblimit/weblimit/policy => ../../../policy
)

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/weblimit/weblimit/policy v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
)

require (
	github.com/weblimit/weblimit v0.0.0 // indirect
	golang.org/x/text v0.40.0 // indirect
)
