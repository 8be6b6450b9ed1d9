// Package envoy is Envoy's rate limit service, gRPC envoy.service.ratelimit.v3.RateLimitService, by
// the configuration files of envoyproxy/ratelimit:
//
//	server, err := envoy.New(envoy.Config{Source: envoy.Directory("config"), Store: store})
//	…
//	stop := server.Watch(ctx) // changes of the files
//	defer stop()
//
//	g := grpc.NewServer()
//	server.Register(g) // and grpc.health.v1
//
// A file is read as it is:
//
//	domain: edge
//	descriptors:
//	  - key: remote_address
//	    rate_limit: {unit: second, requests_per_unit: 10}
//
// Files are taken all or nothing: if anything is wrong with one, what decided before still decides,
// and [Error] has everything that is wrong, with file, line, column and what was probably meant.
//
// # Deciding
//
// Each descriptor of a request is matched with the rules of its domain, and the rules found are
// decided together, in one call of the store: either all are charged or, if one denies, none is.
// Config.Independent charges each by itself, as envoyproxy/ratelimit does.
//
// # Outages
//
// If the store does not answer in time, each process grants its share of the limits: see
// Config.OnOutage. An answer comes before the caller's deadline, which is 20 ms by default in Envoy.
//
// # Security
//
// Values of descriptors are whatever Envoy's clients send. They choose buckets and nothing else: no
// value can meet the bucket of another, whatever characters it has, and each takes bounded room. An
// error would let a request pass where Envoy has failure_mode_deny: false, its default, so no value is
// an error: not one that is long, empty or no UTF-8. The caller is Envoy and is trusted: it can name
// any domain and, by overrides, any limit. So the service listens where only Envoys reach it.
package envoy
