package grpclimit_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// keysOf is interceptors that note the key of each call, and the keys.
func keysOf(tb testing.TB, f keyfuncs.Func) (*grpclimit.Interceptors, func() string) {
	tb.Helper()
	var mu sync.Mutex
	var last string
	return limited(tb, core.NewMemory(), core.PerHour(1000).By(keyfuncs.Custom("seen", func(r keyfuncs.Request) string {
			key, p := f.Key(r)
			mu.Lock()
			defer mu.Unlock()
			if last = key; p != keyfuncs.Present {
				last = p.String()
			}
			return "x"
		}))), func() string {
			mu.Lock()
			defer mu.Unlock()
			return last
		}
}

type userKey struct{}

func TestKeys(t *testing.T) {
	t.Parallel()
	proxied := keyfuncs.ClientIP(keyfuncs.TrustedProxies("127.0.0.0/8"))
	for _, tt := range []struct {
		name  string
		key   keyfuncs.Func
		pairs []string
		want  string
	}{
		{"metadata", keyfuncs.Header("X-Tenant"), []string{"x-tenant", "42"}, "header.x-tenant:42"},
		{"metadata in another case", keyfuncs.Header("x-TENANT"), []string{"X-Tenant", " 42 "}, "header.x-tenant:42"},
		{"no metadata", keyfuncs.Header("X-Tenant"), nil, "missing"},
		{"metadata twice", keyfuncs.Header("X-Tenant"), []string{"x-tenant", "42", "x-tenant", "43"}, "ambiguous"},
		{"metadata twice, once empty", keyfuncs.Header("X-Tenant"), []string{"x-tenant", "", "x-tenant", "43"}, "ambiguous"},
		{"another name", keyfuncs.Header("X-Tenant"), []string{"x_tenant", "42"}, "missing"},
		{"bytes", keyfuncs.Header("X-Id-Bin"), []string{"x-id-bin", "\x00\xff "}, "header.x-id-bin:AP8g"},
		{"bytes without their blank", keyfuncs.Header("X-Id-Bin"), []string{"x-id-bin", "\x00\xff"}, "header.x-id-bin:AP8"},
		{"bytes twice", keyfuncs.Header("X-Id-Bin"), []string{"x-id-bin", "a", "x-id-bin", "b"}, "ambiguous"},
		{"the authority", keyfuncs.Header("Host"), nil, "header.host:example.test"},
		{"a cookie", keyfuncs.Join(keyfuncs.Cookie("sid"), keyfuncs.Everyone()), []string{"cookie", "a=b; sid=1"}, "cookie.sid#"},
		{"a cookie in two lines", keyfuncs.Cookie("sid"), []string{"cookie", "sid=1", "cookie", "sid=2"}, "ambiguous"},
		{"no cookie", keyfuncs.Cookie("sid"), []string{"cookie", "a=b"}, "missing"},
		{"a bearer token", keyfuncs.APIKey(), []string{"authorization", "Bearer abc"}, "apikey#"},
		{"the peer", keyfuncs.ClientIP(), []string{"x-forwarded-for", "203.0.113.9", "x-real-ip", "203.0.113.9"}, "ip:127.0.0.1"},
		{"behind a proxy", proxied, []string{"x-forwarded-for", "203.0.113.9"}, "ip:203.0.113.9"},
		{"behind a proxy that adds a value", proxied, []string{"x-forwarded-for", "198.51.100.1", "x-forwarded-for", "203.0.113.9"}, "ip:203.0.113.9"},
		{"garbage behind a proxy", proxied, []string{"x-forwarded-for", "203.0.113.9, unknown"}, "missing"},
		{"the route", keyfuncs.Route(), nil, "route:" + say},
		{"the HTTP method", keyfuncs.Method(), nil, "method:POST"},
		{"a user of an interceptor", keyfuncs.User(userKey{}), []string{"x-user", "alice"}, "user:alice"},
		{"no user", keyfuncs.User(userKey{}), nil, "missing"},
		{"a message", grpclimit.Key("text", func(_ context.Context, call grpclimit.Call) string { return call.Message.(*text).GetValue() }), nil, "text:hello"},
		{"no certificate", grpclimit.Key("cert", certificate), nil, "missing"},
		{"a parameter", keyfuncs.Custom("query", func(r keyfuncs.Request) string { v, _ := r.Query("a", 0); return v }), nil, "missing"},
		{"the path", keyfuncs.Custom("path", func(r keyfuncs.Request) string { return r.Path() }), nil, "path:" + say},
	} {
		in, last := keysOf(t, tt.key)
		l := loopback(t)
		listen(t, l, &service{}, append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(signIn)}, options(in)...)...)
		s := &site{t, dial(t, "passthrough:///"+l.Addr().String(), grpc.WithAuthority("example.test"))}
		want(t, tt.name, s.call(say, tt.pairs...).code, codes.OK)
		got := last()
		if hashed := strings.HasSuffix(tt.want, "#"); hashed && !strings.HasPrefix(got, tt.want) || !hashed && got != tt.want {
			t.Errorf("%s: key %q, want %q", tt.name, got, tt.want)
		}
	}
}

// signIn is an interceptor for authentication.
func signIn(ctx context.Context, message any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if users := valuesOf(ctx, "x-user"); len(users) > 0 {
		ctx = context.WithValue(ctx, userKey{}, users[0])
	}
	return handler(ctx, message)
}

func certificate(ctx context.Context, _ grpclimit.Call) string {
	if cert := grpclimit.PeerCertificate(ctx); cert != nil {
		return cert.Subject.CommonName
	}
	return ""
}

// A unix socket has no address, even if its client names its own end like one. Neither has a
// connection in memory.
func TestPeersWithoutAnAddress(t *testing.T) {
	t.Parallel()
	t.Run("unix", func(t *testing.T) {
		t.Parallel()
		in, last := keysOf(t, keyfuncs.ClientIP())
		path := filepath.Join(t.TempDir(), "s")
		l := must.Get(net.Listen("unix", path))(t)
		listen(t, l, &service{}, options(in)...)
		s := &site{t, dial(t, "passthrough:///"+path, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			// An abstract name, so that no file is left behind, and one that no other process has.
			name := fmt.Sprintf("@10.0.0.1:%d", 1024+os.Getpid()%60_000)
			return (&net.Dialer{LocalAddr: &net.UnixAddr{Name: name, Net: "unix"}}).DialContext(ctx, "unix", addr)
		}))}
		want(t, "code", s.call(say).code, codes.OK)
		want(t, "key", last(), "missing")
	})
	t.Run("bufconn", func(t *testing.T) {
		t.Parallel()
		in, last := keysOf(t, keyfuncs.ClientIP(keyfuncs.TrustedProxies("0.0.0.0/0")))
		l := bufconn.Listen(1 << 16)
		listen(t, l, &service{}, options(in)...)
		s := &site{t, dial(t, "passthrough:///bufconn", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))}
		want(t, "code", s.call(say, "x-forwarded-for", "203.0.113.9").code, codes.OK)
		want(t, "key", last(), "missing")
	})
}

// named is a listener whose connections have a peer of another network.
type named struct {
	net.Listener
	addr net.Addr
}

func (l named) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return namedConn{c, l.addr}, err
}

type namedConn struct {
	net.Conn
	addr net.Addr
}

func (c namedConn) RemoteAddr() net.Addr { return c.addr }

type textAddr struct{ network, text string }

func (a textAddr) Network() string { return a.network }
func (a textAddr) String() string  { return a.text }

func TestPeersOfOtherNetworks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		addr net.Addr
		want string
	}{
		{textAddr{"tcp", "192.0.2.7:80"}, "ip:192.0.2.7"},
		{textAddr{"tcp", "[::ffff:192.0.2.7]:80"}, "ip:192.0.2.7"},
		{textAddr{"tcp", "garbage"}, "missing"},
		{textAddr{"unix", "192.0.2.7:80"}, "missing"},
		{net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[2001:db8::1%eth0]:80")), "ip:2001:db8::/64"},
	} {
		in, last := keysOf(t, keyfuncs.ClientIP())
		l := loopback(t)
		listen(t, named{l, tt.addr}, &service{}, options(in)...)
		s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
		want(t, tt.addr.String(), s.call(say).code, codes.OK)
		want(t, tt.addr.String(), last(), tt.want)
	}
}

func TestAMethodIsARoute(t *testing.T) {
	t.Parallel()
	l := loopback(t)
	in := grpclimit.New(limiter(t, core.Config{
		Store: core.NewMemory(),
		Limits: []core.Limit{
			core.PerHour(2).By(keyfuncs.Everyone(), keyfuncs.Route()).Named("each"),
			core.PerHour(1).By(keyfuncs.Everyone()).Named("ask").When(keyfuncs.Routes("POST " + ask)),
		},
		Bypass: []keyfuncs.Condition{keyfuncs.Routes("/grpc.health.v1.Health/Check")},
	}))
	server := grpc.NewServer(options(in)...)
	server.RegisterService(&desc, &service{})
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}

	want(t, "say", s.call(say).code, codes.OK)
	want(t, "ask", s.call(ask).code, codes.OK)
	want(t, "ask again", s.call(ask).code, codes.ResourceExhausted)
	want(t, "say again", s.call(say).code, codes.OK)
	want(t, "say a third time", s.call(say).code, codes.ResourceExhausted)
	for range 5 {
		res, err := grpc_health_v1.NewHealthClient(s.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil || res.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health: %v, %v", res, err)
		}
	}
	for _, method := range []string{"/grpc.health.v1.Health/Check/", "/test.Service/../grpc.health.v1.Health/Check", "//grpc.health.v1.Health/Check"} {
		want(t, method, s.call(method).code, codes.Unimplemented)
	}
}

// A handler for unknown services gets any method that a client makes up. All of them share one
// bucket, and none is exempt.
func TestUnknownMethodsShareABucket(t *testing.T) {
	t.Parallel()
	l := loopback(t)
	in := grpclimit.New(limiter(t, core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{core.PerHour(3).By(keyfuncs.Route())},
		Bypass: []keyfuncs.Condition{keyfuncs.Routes("/made.up/0")},
	}))
	echo := &service{}
	listen(t, l, echo, append(options(in), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return echo.stream(stream) }))...)
	s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
	allowed := 0
	for _, method := range []string{"/made.up/0", "/made.up/1", "/made.up/2", "/made.up/3", "/other/4", "/test.Service/None"} {
		if s.call(method).code == codes.OK {
			allowed++
		}
	}
	want(t, "allowed", allowed, 3)
	want(t, "a method that there is", s.call(say).code, codes.OK)
}

// Servers that accept a method without its leading slash pass it on as it is.
func TestAMethodWithoutItsSlashIsTheSameMethod(t *testing.T) {
	t.Parallel()
	in, last := keysOf(t, keyfuncs.Route())
	handler := func(context.Context, any) (any, error) { return nil, nil }
	for _, method := range []string{say, say[1:]} {
		if _, err := in.Unary(t.Context(), nil, &grpc.UnaryServerInfo{Server: &service{}, FullMethod: method}, handler); err != nil {
			t.Error(err)
		}
		want(t, method, last(), "route:"+say)
	}
}

// Only a certificate that the server has verified is an identity.
func TestCertificates(t *testing.T) {
	t.Parallel()
	ca, caKey := issue(t, "ca", nil, nil)
	server, _ := issue(t, "server", ca, caKey)
	client, _ := issue(t, "device-7", ca, caKey)
	pool := x509.NewCertPool()
	pool.AddCert(ca.Leaf)
	for _, tt := range []struct {
		auth tls.ClientAuthType
		want string
	}{{tls.RequireAndVerifyClientCert, "cert:device-7"}, {tls.VerifyClientCertIfGiven, "cert:device-7"}, {tls.RequireAnyClientCert, "missing"}} {
		in, last := keysOf(t, grpclimit.Key("cert", certificate))
		l := loopback(t)
		serverTLS := &tls.Config{Certificates: []tls.Certificate{*server}, ClientAuth: tt.auth, ClientCAs: pool, MinVersion: tls.VersionTLS13}
		listen(t, l, &service{}, append(options(in), grpc.Creds(credentials.NewTLS(serverTLS)))...)
		clientTLS := &tls.Config{Certificates: []tls.Certificate{*client}, RootCAs: pool, ServerName: "server", MinVersion: tls.VersionTLS13}
		s := &site{t, dial(t, "passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(clientTLS)))}
		want(t, tt.auth.String(), s.call(say).code, codes.OK)
		want(t, tt.auth.String(), last(), tt.want)
	}
	want(t, "no peer", grpclimit.PeerCertificate(t.Context()) == nil, true)
}

// issue makes a certificate, signed by a parent or, if that is nil, by itself.
func issue(t *testing.T, name string, parent *tls.Certificate, parentKey *ecdsa.PrivateKey) (*tls.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		NotAfter:     time.Now().Add(time.Hour),
		IsCA:         parent == nil, BasicConstraintsValid: true,
	}
	signer, signerKey := template, key
	if parent != nil {
		signer, signerKey = parent.Leaf, parentKey
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, signerKey))(t)
	leaf := must.Get(x509.ParseCertificate(der))(t)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, key
}

// Metadata of a megabyte become keys of a bounded size, and cost their sender its quota.
func TestHugeMetadata(t *testing.T) {
	t.Parallel()
	key := keyfuncs.Header("X-Tenant")
	in, last := keysOf(t, key)
	s := serve(t, &service{}, in)
	huge := strings.Repeat("a", 1<<20)
	want(t, "code", s.call(say, "x-tenant", huge).code, codes.OK)
	if n := len(last()); n > 256 {
		t.Errorf("the key has %d bytes", n)
	}
	var many []string
	for range 20_000 {
		many = append(many, "x-tenant", "a")
	}
	want(t, "code", s.call(say, many...).code, codes.OK)
	want(t, "key", last(), "ambiguous")
}

// Keys and conditions over calls are for gRPC; without an adapter they take the safe side.
func TestRequestsOfOtherFrameworks(t *testing.T) {
	t.Parallel()
	key := grpclimit.Key("item", func(context.Context, grpclimit.Call) string { return "x" })
	if _, p := key.Key(keyfuncs.Values{}); p != keyfuncs.Missing {
		t.Errorf("the key is %v", p)
	}
	condition := grpclimit.Matches(func(context.Context, grpclimit.Call) bool { return true })
	want(t, "the condition", condition.Ask(keyfuncs.Values{}), keyfuncs.Unknown)
	if n := grpclimit.Cost(func(context.Context, grpclimit.Call) int64 { return 0 })(keyfuncs.Values{}); n >= 0 {
		t.Errorf("the cost is %d", n)
	}
	for _, limit := range []core.Limit{core.PerHour(1).By(key), core.PerHour(1).By(keyfuncs.Everyone()).When(condition)} {
		func() {
			defer func() { want(t, "panics over HTTP", recover() != nil, true) }()
			nethttp.Limit(core.NewMemory(), limit)
		}()
	}
	func() {
		defer func() { want(t, "a key of HTTP panics", recover() != nil, true) }()
		grpclimit.Limit(core.NewMemory(), core.PerHour(1).By(nethttp.Key("item", func(*http.Request) string { return "" })))
	}()
}

func TestConditionsOverCalls(t *testing.T) {
	t.Parallel()
	long := grpclimit.Matches(func(_ context.Context, call grpclimit.Call) bool {
		m, ok := call.Message.(*text)
		return ok && len(m.GetValue()) > 3
	})
	s := serve(t, &service{}, limited(t, core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone()).When(long)))
	want(t, "first", s.call(say).code, codes.OK)
	want(t, "second", s.call(say).code, codes.ResourceExhausted)
}
