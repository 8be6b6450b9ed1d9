package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/internal/settings"
)

const (
	maxHeader    = 64 << 10 // bytes of a request's header: a gateway passes on those of its clients
	maxStreams   = 256      // requests at a time on a connection of HTTP/2
	maxMessage   = 1 << 20  // bytes of a call of gRPC
	writeTimeout = 30 * time.Second
	ageGrace     = 30 * time.Second // for calls on a connection of gRPC that has reached its age

	// streamWorkers are goroutines that serve calls of gRPC one after the other. Calls beyond these get a goroutine each, whose
	// stack has to grow first: copying stacks was a seventh of the processor time of a check.
	streamWorkers = 64
)

// bounds are the settings of what callers can take.
type bounds struct {
	maxConnections, maxInFlight             settings.Int
	headerTimeout, readTimeout, idleTimeout settings.Duration
	grpcAge                                 settings.Duration
	memoryLimit                             memoryLimit
}

func (o *bounds) add(g settings.Group) {
	o.maxConnections, o.maxInFlight = settings.Int{Min: 1, Max: 1_000_000}, settings.Int{Min: 1, Max: 1_000_000}
	g.Add("max-connections", &o.maxConnections, "16384", "open connections per listener; further ones are closed at once")
	g.Add("max-in-flight", &o.maxInFlight, "1024", "requests of callers at work; further ones get 503 or RESOURCE_EXHAUSTED")
	o.headerTimeout = settings.Duration{Min: 100 * time.Millisecond, Max: time.Minute}
	o.readTimeout = settings.Duration{Min: 100 * time.Millisecond, Max: 10 * time.Minute}
	o.idleTimeout = settings.Duration{Min: time.Second, Max: time.Hour}
	g.Add("header-timeout", &o.headerTimeout, "5s", "how long a caller may take to send a request's header")
	g.Add("read-timeout", &o.readTimeout, "10s", "how long a caller may take to send a request")
	g.Add("idle-timeout", &o.idleTimeout, "5m", "how long a connection without requests stays open")
	o.grpcAge = settings.Duration{Min: time.Second, Max: 365 * 24 * time.Hour}
	g.Add("grpc-max-age", &o.grpcAge, "30m", "how long a connection of gRPC lasts, more or less a tenth, so that callers find new instances")
	g.Add("memory-limit", &o.memoryLimit, "auto", "auto for 90% of the container's memory, off, or a size such as 512MiB; GOMEMLIMIT wins")
}

// loadCertificates reads the certificates of all listeners.
func (s *daemon) loadCertificates() error {
	o := s.options
	callers, err := loadPair("", string(o.tlsCert), string(o.tlsKey), string(o.tlsClientCA), o.tlsClientNames)
	if err != nil {
		return err
	}
	operators, err := loadPair("admin-", string(o.adminTLSCert), string(o.adminTLSKey), string(o.adminTLSClients), o.adminTLSClientNames)
	if err != nil {
		return err
	}
	if callers != nil {
		if !o.tlsGRPCOnly {
			s.certs["data"] = callers
		}
		if !o.grpcListen.IsOff() {
			s.certs["grpc"] = callers
		}
	}
	if operators != nil {
		s.certs["admin"] = operators
	}
	return nil
}

func loadPair(prefix, cert, key, ca string, names []string) (*secure.Certificates, error) {
	switch {
	case (cert == "") != (key == ""):
		return nil, fmt.Errorf("--%[1]stls-cert and --%[1]stls-key belong together", prefix)
	case cert == "" && ca != "":
		return nil, fmt.Errorf("--%[1]stls-client-ca needs --%[1]stls-cert and --%[1]stls-key", prefix)
	case ca == "" && len(names) > 0:
		return nil, fmt.Errorf("--%[1]stls-client-names needs --%[1]stls-client-ca", prefix)
	case cert == "":
		return nil, nil
	}
	c, err := secure.Load(secure.Files{Cert: cert, Key: key, ClientCA: ca, Names: names})
	if err != nil {
		return nil, fmt.Errorf("--%stls-cert: %w", prefix, err)
	}
	return c, nil
}

// httpServer returns a server with bounds on everything that a caller can take.
func (s *daemon) httpServer(listener string, h http.Handler) *http.Server {
	o := s.options
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: o.headerTimeout.Duration,
		ReadTimeout:       o.readTimeout.Duration,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       o.idleTimeout.Duration,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(serverLog{s.log, listener}, "", 0),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReadFrameSize: 16 << 10},
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(s.certs[listener] == nil)
	return server
}

// serveHTTP serves in the background. A drain closes the data listener before it shuts the server down, see connections:
// Serve then ends with net.ErrClosed in place of http.ErrServerClosed.
func (s *daemon) serveHTTP(name string, server *http.Server) {
	l := net.Listener(s.listeners[name])
	if c := s.certs[name]; c != nil {
		l = tls.NewListener(l, c.Config("h2", "http/1.1"))
	}
	go func() {
		err := server.Serve(l)
		if !errors.Is(err, http.ErrServerClosed) && (!errors.Is(err, net.ErrClosed) || s.health.now() != draining) {
			s.failed <- fmt.Errorf("the listener %s ended: %w", name, err)
		}
	}()
}

// newGRPC returns the gRPC server.
func (s *daemon) newGRPC() *grpc.Server {
	o := s.options
	options := []grpc.ServerOption{
		grpc.InTapHandle(s.guard.letsIn),
		grpc.UnaryInterceptor(s.guard.unary),
		grpc.StreamInterceptor(s.guard.stream),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(o.headerTimeout.Duration),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: o.idleTimeout.Duration, MaxConnectionAge: o.grpcAge.Duration, MaxConnectionAgeGrace: ageGrace,
			Time: 2 * time.Minute, Timeout: 20 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.ReadBufferSize(8 << 10), grpc.WriteBufferSize(8 << 10),
		grpc.NumStreamWorkers(streamWorkers),
	}
	if c := s.certs["grpc"]; c != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c.Config("h2"))))
	}
	server := grpc.NewServer(options...)
	for _, m := range s.mounts {
		if m.grpc != nil {
			m.grpc(server)
		}
	}
	return server
}

func (s *daemon) serveGRPC(server *grpc.Server) {
	go func() {
		if err := server.Serve(s.listeners["grpc"]); err != nil {
			s.failed <- fmt.Errorf("the listener grpc ended: %w", err)
		}
	}()
}

func addressOf(l net.Listener) string {
	if a, ok := l.Addr().(*net.UnixAddr); ok {
		return "unix:" + a.Name
	}
	return l.Addr().String()
}
