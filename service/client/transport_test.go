package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/service/client"
)

// forward serves the handler of s to requests over HTTP/2 only.
func forward(t *testing.T, s *server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		check.Equal(t, "HTTP", r.ProtoMajor, 2)
		s.Config.Handler.ServeHTTP(w, r)
	})
}

// serveTLS serves HTTP/2 to callers, who need a certificate of these if there are any, and returns what signs the
// server's own.
func serveTLS(t *testing.T, callers *x509.CertPool) (url string, roots *x509.CertPool) {
	t.Helper()
	server := httptest.NewUnstartedServer(forward(t, serve(t)))
	server.EnableHTTP2 = true
	if callers != nil {
		server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: callers, MinVersion: tls.VersionTLS12}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots = x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server.URL, roots
}

// With a Transport, a client speaks HTTP/2 without TLS, many calls on one connection.
func TestHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := httptest.NewUnstartedServer(forward(t, serve(t)))
	server.Config.Protocols = protocols
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	c := newClient(t, client.Config{URL: server.URL, Transport: transport})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { allows(t, c) })
	}
	group.Wait()
	if a, err := c.Peek(context.Background(), ann); err != nil || a.Limits[0].Remaining != 30 {
		t.Errorf("%+v %v: want 30 of 50 left", a.Limits, err)
	}
}

// certificate makes a certificate of a caller that signs itself.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "caller"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	text := must.Get(x509.CreateCertificate(rand.Reader, of, of, key.Public(), key))(t)
	pool := x509.NewCertPool()
	pool.AddCert(must.Get(x509.ParseCertificate(text))(t))
	return tls.Certificate{Certificate: [][]byte{text}, PrivateKey: key}, pool
}

// Where callers need a certificate, one with it is served, and others find the service away.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	mine, callers := certificate(t)
	other, _ := certificate(t)
	url, roots := serveTLS(t, callers)
	for name, of := range map[string]struct {
		certificates []tls.Certificate
		want         store.Class // of the error, or ""
	}{
		"its certificate": {[]tls.Certificate{mine}, ""},
		"none":            {nil, store.ClassConnection},
		"another's":       {[]tls.Certificate{other}, store.ClassConnection},
	} {
		c := newClient(t, client.Config{URL: url, TLS: &tls.Config{RootCAs: roots, Certificates: of.certificates, MinVersion: tls.VersionTLS12}})
		a, err := c.Check(context.Background(), ann)
		if of.want == "" && (err != nil || !a.Allowed) || of.want != "" && (err == nil || store.ErrorOf(err).Class != of.want) {
			t.Errorf("%s: %+v %v", name, a, err)
		}
	}
}
