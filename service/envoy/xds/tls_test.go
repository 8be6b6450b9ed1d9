package xds_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/service/envoy"
	"github.com/weblimit/weblimit/service/envoy/xds"
)

var errUnexpected = errors.New("another error, or none")

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return &authority{must.Get(x509.ParseCertificate(der))(t), key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// sign returns a certificate for a name.
func (a *authority) sign(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// The control plane and the source know each other by certificates, and headers are sent. Certificates may change.
func TestTLS(t *testing.T) {
	t.Parallel()
	by, another := newAuthority(t), newAuthority(t)
	plane := startPlane(t, "", grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{by.sign(t, "envoy-gateway")}, ClientCAs: by.pool(), ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	})))
	good := &tls.Config{RootCAs: by.pool(), ServerName: "envoy-gateway", Certificates: []tls.Certificate{by.sign(t, "first")}, MinVersion: tls.VersionTLS12}
	with := func(change func(*tls.Config)) func() (*tls.Config, error) {
		c := good.Clone()
		change(c)
		return func() (*tls.Config, error) { return c, nil }
	}
	for what, tt := range map[string]struct {
		tls func() (*tls.Config, error)
		why string
	}{
		"no TLS":                   {nil, ""},
		"another authority":        {with(func(c *tls.Config) { c.RootCAs = another.pool() }), "certificate signed by unknown authority"},
		"another name":             {with(func(c *tls.Config) { c.ServerName = "another" }), "not another"},
		"the name of its host":     {with(func(c *tls.Config) { c.ServerName = "" }), "127.0.0.1"},
		"no certificate":           {with(func(c *tls.Config) { c.Certificates = nil }), ""},
		"one of another":           {with(func(c *tls.Config) { c.Certificates = []tls.Certificate{another.sign(t, "first")} }), ""},
		"files that can't be read": {func() (*tls.Config, error) { return nil, errors.New("no such file") }, "no such file"},
	} {
		source := must.Get(xds.New(quick(xds.Config{Server: plane.addr, TLS: tt.tls, Wait: 300 * time.Millisecond})))(t)
		wait.For(t, what+" is found", func() error { // a busy machine may not find out within the time
			_, err := source.Load(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.why) {
				return errors.Join(errUnexpected, err)
			}
			return nil
		})
	}

	var now atomic.Pointer[tls.Config]
	now.Store(good)
	headers := map[string]string{"Authorization": "Bearer token", "x-tenant": "a"}
	config := xds.Config{Server: plane.addr, Headers: headers, TLS: func() (*tls.Config, error) { return now.Load(), nil }}
	s := newServing(t, config, envoy.Config{}, func() {
		st, _ := plane.next(t)
		fields, _ := metadata.FromIncomingContext(st.Context())
		check.Slices(t, "the token", fields.Get("authorization"), []string{"Bearer token"})
		check.Slices(t, "the tenant", fields.Get("x-tenant"), []string{"a"})
		check.Equal(t, "who asks", nameOf(t, st), "first")
		accepts(t, "1", st.serve(t, "1", perUser("edge", 3)))
	})
	check.Equal(t, "the limit", s.left(t, "a"), 2)
	renewed := good.Clone()
	renewed.Certificates = []tls.Certificate{by.sign(t, "second")}
	now.Store(renewed)
	st, _ := plane.next(t) // which may have begun before
	st.ending <- nil
	st, _ = plane.next(t)
	check.Equal(t, "who asks", nameOf(t, st), "second")
	accepts(t, "2", st.serve(t, "2", perUser("edge", 5)))
	check.Equal(t, "the limit", s.left(t, "a"), 3)
}

func nameOf(t *testing.T, s *stream) string {
	t.Helper()
	p, _ := peer.FromContext(s.Context())
	return p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].Subject.CommonName
}

// A configuration that can't work is an error at once, and no error has the value of a header.
func TestWrongConfigurations(t *testing.T) {
	t.Parallel()
	for why, config := range map[string]xds.Config{
		"Server is missing":                        {},
		"Server must be host:port":                 {Server: "envoy-gateway"},
		`got "unix:///run/x.sock"`:                 {Server: "unix:///run/x.sock"},
		`got "xds:///a:1"`:                         {Server: "xds:///a:1"},
		`got "a:0"`:                                {Server: "a:0"},
		`got "a:70000"`:                            {Server: "a:70000"},
		`got ":1"`:                                 {Server: ":1"},
		"NodeID has 2000 bytes":                    {Server: "a:1", NodeID: string(make([]byte, 2000))},
		"NodeID and Metadata must be UTF-8 text":   {Server: "a:1", Metadata: map[string]string{"zone": "\xff"}},
		"Wait must be at least 1ms, got -1s":       {Server: "a:1", Wait: -time.Second},
		"Retry must be at least 10ms, got 1ns":     {Server: "a:1", Retry: 1},
		"MaxRetry is 1s, and Retry more: 2s":       {Server: "a:1", Retry: 2 * time.Second, MaxRetry: time.Second},
		"MaxMessage must be from 1 to 67108864":    {Server: "a:1", MaxMessage: 1 << 30},
		`Headers: "a b" is no name of a header`:    {Server: "a:1", Headers: map[string]string{"a b": "s3cret"}},
		`Headers: "grpc-x" is a name that gRPC`:    {Server: "a:1", Headers: map[string]string{"grpc-x": "s3cret"}},
		`Headers: the value of "x" has characters`: {Server: "a:1", Headers: map[string]string{"x": "s3cret\n"}},
	} {
		_, err := xds.New(config)
		check.Fails(t, why, err, why)
		if err != nil {
			check.Equal(t, "whether the error has a secret", containsSecret(err), false)
		}
	}
	for _, server := range []string{"a:1", "127.0.0.1:18001", "[::1]:18001", "envoy-gateway.envoy-gateway-system.svc.cluster.local:18001"} {
		check.OK(t, check.ErrorOf(xds.New(xds.Config{Server: server})))
	}
}

func containsSecret(err error) bool { return strings.Contains(err.Error(), "s3cret") }
