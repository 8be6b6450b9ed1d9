module github.com/weblimit/weblimit/policy

go 1.25.0

require (
	github.com/weblimit/weblimit v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
)

replace github.com/weblimit/weblimit => ../
