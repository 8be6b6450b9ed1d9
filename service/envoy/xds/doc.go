// Package xds has the limits of [envoy.Server] come from a control plane, as those of Envoy Gateway and Envoy AI
// Gateway do:
//
//	source, err := xds.New(xds.Config{Server: "envoy-gateway:18001", TLS: readCertificates})
//	…
//	server, err := envoy.New(envoy.Config{Source: source, AllowEmpty: true, Store: store})
//	…
//	stop := server.Watch(ctx) // changes
//	defer stop()
//
// It subscribes to resources of the type ratelimit.config.ratelimit.v3.RateLimitConfig over the Aggregated Discovery
// Service, state of the world: each answer of the control plane has all resources. A resource is read as the file of
// envoyproxy/ratelimit that has the same fields, by the same reader, and under its own name in errors.
//
// # What the control plane hears
//
// An answer is acknowledged once its resources decide. If one of them can't, all of them are refused with everything that is
// wrong with them, and what decided before goes on, as with files. An answer without resources has no limits: every request
// is answered OK if envoy.Config.AllowEmpty is set, and the answer is refused otherwise.
//
// # While the control plane is away
//
// What decided goes on. The source connects again, after pauses that grow up to Config.MaxRetry and differ between
// processes, and asks for everything anew: what a control plane calls its versions begins again when it restarts. The
// first [Source.Load] waits for Config.Wait. Whether New fails then is up to envoy.Config.StartWithout.
//
// # Security
//
// The control plane decides what is limited. Without TLS that is whoever answers at its address. What it sends is
// bounded before it is unpacked: the bytes of an answer, its resources, their fields and how deep they are nested. An
// answer that follows at once waits until the one before was judged, and for four times as long as that took.
package xds
