module github.com/weblimit/weblimit/internal/test/clients

go 1.25.0

replace github.com/weblimit/weblimit => ../../..

require (
	github.com/cenkalti/backoff/v5 v5.0.3
	github.com/go-resty/resty/v2 v2.17.2
	github.com/google/go-github/v75 v75.0.0
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/weblimit/weblimit v0.0.0
)

require (
	github.com/felixge/httpsnoop v1.0.4 // indirect
	github.com/google/go-querystring v1.1.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	golang.org/x/net v0.56.0 // indirect
)
