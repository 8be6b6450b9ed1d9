// Package grpclimit limits calls to servers of google.golang.org/grpc.
//
//	limit := grpclimit.Limit(store, core.PerMinute(300).By(keyfuncs.ClientIP()))
//	server := grpc.NewServer(limit.Options()...)
//
// A server has interceptors for unary calls and others for streams. With only one of the two
// installed, the other calls are not limited, and no warning says so. [Interceptors.Options]
// installs both. Beside interceptors of your own, name both:
//
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(authenticate, limit.Unary),
//		grpc.ChainStreamInterceptor(authenticateStream, limit.Stream))
//
// Three functions make the interceptors:
//
//   - [Limit] takes limits, and uses defaults for everything else;
//   - [With] takes settings once, for all limits of an application;
//   - [New] takes a limiter from [core.New].
//
// A stream is decided when it starts; [Interceptors.Messages] limits the messages on it. [Key],
// [Matches] and [Cost] make keys, conditions and costs of a call's context and message. In a handler,
// [FromContext] returns the decision, [core.Spend] reports what the call has cost, and [Deny] answers for a
// limiter that the handler has asked.
//
// # Responses
//
// A denied call does not reach the handler. It fails with RESOURCE_EXHAUSTED, with UNAVAILABLE
// during an outage if the limit says so, or with INVALID_ARGUMENT or UNAUTHENTICATED for a key
// that is ambiguous or missing. [Deny] lists the details, of which google.rpc.RetryInfo says
// how long to wait. [Config.Denied] returns another error.
//
// The headers of HTTP, such as ratelimit and ratelimit-policy, are header metadata of a response
// with messages, and trailers of a response without: on a denial together with retry-after.
// Clients with a retry policy retry only a call whose response has nothing but trailers (gRPC
// proposal A6), so headers that were set before the handler runs would switch retries off. An
// interceptor around the limiter that sets header metadata does so.
//
// A denial also has the trailer grpc-retry-pushback-ms. Where the retry policy of a client names
// the code, it makes the client wait as long as the limit says, and its backoff is not used. It
// is -1, which means not to retry, if the wait would be longer than ten seconds or than the
// client's deadline, or can't help: the application sees the denial at once.
//
// # Clients
//
// A client in Go retries with a service config, given to grpc.WithDefaultServiceConfig. Name
// only services whose calls may be repeated:
//
//	{"methodConfig": [{
//		"name": [{"service": "support.v1.Support"}],
//		"retryPolicy": {
//			"maxAttempts": 3,
//			"initialBackoff": "0.1s",
//			"maxBackoff": "1s",
//			"backoffMultiplier": 2,
//			"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]
//		}
//	}]}
//
// A client that reads the details imports google.golang.org/genproto/googleapis/rpc/errdetails.
// Without it, status.Details has errors in place of RetryInfo and QuotaFailure, whose types
// the program does not know.
//
// # Keys
//
// Metadata are headers: keyfuncs.Header("X-Tenant") and keyfuncs.APIKey read "x-tenant" and
// "x-api-key" or "authorization". A key that is there twice is ambiguous, as on HTTP. Values of
// keys that end in "-bin" are read in base64, without padding. Users and tenants come from the
// context, in which an interceptor in front of the limiter has put them. There is no query.
//
// Functions of yours see all calls that the limiter decides. Message is nil when a stream starts, and of
// another type on other methods: assert its type with two values. A function that panics denies the
// call with INTERNAL, and the panic is logged: a gRPC server does not survive one.
//
// # Methods
//
// The route is the full method: keyfuncs.Routes("/grpc.health.v1.Health/Check") exempts health
// checks, and limits for some methods have core.Limit.When. Health checks and server reflection count
// like all calls until they are exempt, method by method: Health/Watch and
// ServerReflection/ServerReflectionInfo are streams, which clients may keep open for as long as they
// like. The HTTP method is POST for all calls. A method that the server does not know has no route,
// so clients can't make up keys.
//
// # Client addresses
//
// The peer is the address of the TCP connection. There is none on a unix socket or bufconn.
// Behind a proxy, strategies such as keyfuncs.TrustedProxies read its metadata, "x-forwarded-for".
// grpc-gateway and gRPC-Web proxies set it, too: their own address is the peer.
//
// # Behind grpc-gateway
//
// RESOURCE_EXHAUSTED becomes 429. Three things need a line in the gateway, and examples/grpc/gateway
// has all of them:
//   - Import google.golang.org/genproto/googleapis/rpc/errdetails: a gateway that does not know the
//     details of a denial answers 500.
//   - Rate limit headers become Grpc-Metadata-Ratelimit, and those of a denial, which are trailers,
//     are left out. An outgoing header matcher and an error handler give HTTP clients RateLimit and
//     Retry-After.
//   - Clients set metadata by headers such as Grpc-Metadata-X-Real-Ip. An incoming header matcher
//     drops those that the server would believe.
//
// Register services by a connection, with RegisterXHandler or RegisterXHandlerFromEndpoint.
// RegisterXHandlerServer calls the service past all interceptors: nothing is limited.
//
// # Before the limiter
//
// The server reads and decodes the message of a unary call before interceptors run. So calls whose
// message is too large, can't be decoded or never comes are not limited, and neither are those that
// are reset before it has come. Bound what they cost by grpc.MaxRecvMsgSize, grpc.MaxHeaderListSize,
// grpc.MaxConcurrentStreams, which is per connection, and the number of connections. Unknown methods
// fail without interceptors, too.
package grpclimit
