module github.com/weblimit/weblimit/internal/test/gateways

go 1.25.0

replace github.com/weblimit/weblimit => ../../..

require github.com/weblimit/weblimit v0.0.0

require (
	golang.org/x/net v0.56.0 // indirect
	golang.org/x/text v0.40.0 // indirect
)
