package main

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/internal/browser"
)

// maxBody bounds what a caller may send with a request. Parts have bounds of their own.
const maxBody = 4 << 20

// guard stands in front of everything that callers ask, on both listeners.
type guard struct {
	callers  *callers
	certs    map[string]*secure.Certificates // by listener
	health   *health
	metrics  *metrics
	traces   *traces
	max      int64
	atWork   atomic.Int64
	watches  atomic.Int64  // streams of health
	ending   chan struct{} // closed when the gRPC server ends
	logPanic func(what string, p any, stack []byte)
}

// begin takes a place, or reports that there is none: a service that is overloaded answers at once
// that it is, which costs it next to nothing, and what it takes in it finishes in time. Whoever is refused is
// counted for a moment, too, so that another one may be refused beside it; never are there more than max at work.
func (g *guard) begin(listener string) bool {
	if g.atWork.Add(1) > g.max {
		g.atWork.Add(-1)
		g.metrics.shed.WithLabelValues(listener).Inc()
		return false
	}
	return true
}

// wrap returns the handler of a mount behind the guard. Who asks is looked at before a place is taken, so that
// strangers can't keep callers out.
func (g *guard) wrap(m *mount, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.health.now() == draining {
			w.Header().Set("Connection", "close") // the caller's next request goes to another instance
		}
		if !m.gateway && browser.FromPage(r) { // any page in a browser on this machine could ask
			answerProblem(w, http.StatusForbidden, "Web pages are not answered.")
			return
		}
		if c := g.certs["data"]; c != nil && !c.LetsIn(r.TLS) {
			g.metrics.refused.WithLabelValues("data").Inc()
			w.Header().Set("Connection", "close") // the next handshake is refused
			code := http.StatusUnauthorized
			if m.gateway { // which would take a 401 for a denial of its client
				code = http.StatusInternalServerError
			}
			answerProblem(w, code, "The certificate of this connection is not let in any more.")
			return
		}
		if !g.callers.letsIn(r.Header, m.gateway) {
			g.metrics.refused.WithLabelValues("data").Inc()
			if m.gateway { // which would take a 401 for a denial of its client
				answerProblem(w, http.StatusInternalServerError, "The gateway needs a token of its rate limiter, in "+tokenHeader+".")
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="weblimitd"`)
			answerProblem(w, http.StatusUnauthorized, "The caller needs a token of this service.")
			return
		}
		if !g.begin("data") {
			w.Header().Set("Retry-After", "1")
			answerProblem(w, http.StatusServiceUnavailable, "This instance has too much to do.")
			return
		}
		defer g.atWork.Add(-1)
		began := time.Now()
		r, ended := g.traces.begin(m, r)
		to := &recorder{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
					panic(p)
				}
				g.logPanic(m.name, p, debug.Stack())
				g.metrics.panics.Inc()
				if to.status != 0 {
					panic(http.ErrAbortHandler) // half an answer must not look like a whole one
				}
				answerProblem(to, http.StatusInternalServerError, "Something is wrong with this service.")
			}
			g.metrics.took(m.name, to.status, time.Since(began))
			ended(to.status)
		}()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		h.ServeHTTP(to, r)
	})
}

// recorder notes the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// unary guards calls of gRPC.
func (g *guard) unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	done, err := g.admit(info.FullMethod)
	if err != nil {
		return nil, err
	}
	defer done(&err)
	return handler(ctx, request)
}

// stream guards streams of gRPC.
func (g *guard) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	if strings.HasPrefix(info.FullMethod, healthService) { // they stay open, and need no token
		defer g.watches.Add(-1)
		if g.watches.Add(1) > maxWatches {
			return status.Error(codes.ResourceExhausted, "too many callers watch the health of this instance")
		}
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		stream = &watch{stream, ctx}
		go func() {
			select {
			case <-g.ending: // they know that it drains, and would hold it up
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	done, err := g.admit(info.FullMethod)
	if err != nil {
		return err
	}
	defer done(&err)
	return handler(server, stream)
}

// watch is a stream that the service can end.
type watch struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // as that of the stream it stands for
}

// Context implements grpc.ServerStream.
func (w *watch) Context() context.Context { return w.ctx }

// maxWatches bounds how many streams follow the health of this service. Checks of health are not bounded:
// they end at once.
const maxWatches = 1024

// healthService are the methods by which others ask whether this service is ready. They need no token.
const healthService = "/grpc.health.v1.Health/"

// letsIn refuses callers without a token, or whose certificate is not let in any more, once the fields of a call are there. An interceptor would do so
// after the message, which costs up to a megabyte for each call.
func (g *guard) letsIn(ctx context.Context, call *tap.Info) (context.Context, error) {
	if strings.HasPrefix(call.FullMethodName, healthService) {
		return ctx, nil
	}
	if c := g.certs["grpc"]; c != nil {
		from, known := peer.FromContext(ctx)
		if !known {
			from = new(peer.Peer)
		}
		if info, is := from.AuthInfo.(credentials.TLSInfo); !is || !c.LetsIn(&info.State) {
			g.metrics.refused.WithLabelValues("grpc").Inc()
			return nil, status.Error(codes.Unauthenticated, "the certificate of this connection is not let in any more")
		}
	}
	if g.callers.tokens != nil && !g.callers.letsIn(tokenFields(call.Header), false) {
		g.metrics.refused.WithLabelValues("grpc").Inc()
		return nil, status.Error(codes.Unauthenticated, "the caller needs a token of this service")
	}
	return ctx, nil
}

// admit takes a place for a call, unless it asks for health. done is deferred itself, and not called by what is deferred:
// recover sees a panic only there.
func (g *guard) admit(method string) (done func(*error), err error) {
	if strings.HasPrefix(method, healthService) {
		return func(*error) {}, nil
	}
	if !g.begin("grpc") {
		return nil, status.Error(codes.ResourceExhausted, "this instance has too much to do")
	}
	began := time.Now()
	return func(err *error) {
		g.atWork.Add(-1)
		if p := recover(); p != nil {
			g.logPanic("grpc", p, debug.Stack())
			g.metrics.panics.Inc()
			*err = status.Error(codes.Internal, "something is wrong with this service")
		}
		g.metrics.tookGRPC(status.Code(*err), time.Since(began))
	}, nil
}

// tokenFields returns the fields of a call that have tokens, as HTTP would.
func tokenFields(fields metadata.MD) http.Header {
	h := http.Header{}
	for _, name := range []string{tokenHeader, "Authorization"} {
		if values := fields.Get(name); len(values) > 0 {
			h[name] = values
		}
	}
	return h
}
