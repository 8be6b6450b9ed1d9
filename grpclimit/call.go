package grpclimit

import (
	"context"
	"crypto/x509"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Call is a call as hooks and keys see it. It is for reading.
type Call struct {
	// Method is the full method, "/package.Service/Method".
	Method string

	// Message is the request of a unary call, and the message that [Interceptors.Messages]
	// decides. It is nil when a stream starts: its messages are read later.
	Message any

	// ClientStream and ServerStream say who sends a stream of messages. Neither is set for
	// a unary call.
	ClientStream, ServerStream bool
}

func callOf(info *grpc.StreamServerInfo) Call {
	return Call{Method: path(info.FullMethod), ClientStream: info.IsClientStream, ServerStream: info.IsServerStream}
}

// path returns a method with its leading slash, which a server may accept to be missing: there
// is one spelling of each method for keys and conditions.
func path(method string) string {
	if method == "" || method[0] != '/' {
		return "/" + method
	}
	return method
}

// Key limits by what f returns for a call, such as a field of its message or the name in the
// client's certificate:
//
//	grpclimit.Key("device", func(ctx context.Context, _ grpclimit.Call) string {
//		if cert := grpclimit.PeerCertificate(ctx); cert != nil {
//			return cert.Subject.CommonName
//		}
//		return ""
//	})
//
// It is [keyfuncs.Custom]: the key is kind, ":" and what f returns, and missing if f returns
// "". Other adapters panic at start-up.
func Key(kind string, f func(ctx context.Context, call Call) string) keyfuncs.Func {
	if f == nil {
		return keyfuncs.Custom(kind, nil)
	}
	return keyfuncs.Custom(kind, func(r keyfuncs.Request) string {
		if own, ok := keyfuncs.Unwrap(r).(*request); ok {
			return f(own.ctx, own.call)
		}
		return ""
	}).Needing(callType)
}

// callType is what requests of gRPC have for Key and Matches, and others have not.
const callType = "grpclimit.Call"

// Matches returns the condition that f decides for a call. It is [keyfuncs.Matches]. Other adapters
// panic at start-up; without an adapter its answer is [keyfuncs.Unknown].
func Matches(f func(ctx context.Context, call Call) bool) keyfuncs.Condition {
	if f == nil {
		return keyfuncs.Matches(nil)
	}
	return keyfuncs.Matches(func(r keyfuncs.Request) bool {
		own, ok := keyfuncs.Unwrap(r).(*request)
		return ok && f(own.ctx, own.call)
	}).Needing(callType, func(r keyfuncs.Request) bool {
		_, ok := keyfuncs.Unwrap(r).(*request)
		return ok
	})
}

// Cost makes a function for [core.Limit.CostBy], EstimateBy and the like of one over a call,
// such as the number of items in its message. Requests of other frameworks have an invalid
// cost and are denied. It panics if f is nil.
func Cost(f func(ctx context.Context, call Call) int64) func(keyfuncs.Request) int64 {
	if f == nil {
		panic("weblimit: grpclimit.Cost: no function")
	}
	return func(r keyfuncs.Request) int64 {
		if own, ok := keyfuncs.Unwrap(r).(*request); ok {
			return f(own.ctx, own.call)
		}
		return -1
	}
}

// PeerCertificate returns the certificate of the client, if the server has verified it while the
// connection was made, and nil otherwise: without TLS, without a certificate, and with the
// tls.ClientAuthType values RequestClientCert and RequireAnyClientCert, which accept what any
// client has made up. Applications that verify in a callback of their own read
// [credentials.TLSInfo] from the peer instead.
func PeerCertificate(ctx context.Context) *x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0]
}
