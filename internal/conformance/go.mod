module github.com/weblimit/weblimit/internal/conformance

go 1.25.0

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/weblimit/weblimit v0.0.0
)

replace github.com/weblimit/weblimit => ../..
