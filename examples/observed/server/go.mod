module github.com/weblimit/weblimit/examples/observed/server

go 1.25.0

require (
	github.com/prometheus/client_golang v1.20.5
	github.com/redis/go-redis/v9 v9.5.5
	github.com/weblimit/weblimit v0.0.0
	github.com/weblimit/weblimit/metrics/prometheus v0.0.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/felixge/httpsnoop v1.0.4 // indirect
	github.com/klauspost/compress v1.18.6 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.55.0 // indirect
	github.com/prometheus/procfs v0.15.1 // indirect
	golang.org/x/sys v0.46.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace (
	github.com/weblimit/weblimit => ../../..
	github.com/weblimit/weblimit/metrics/prometheus => ../../../metrics/prometheus
)
