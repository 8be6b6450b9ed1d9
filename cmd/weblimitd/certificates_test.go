package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
)

// ca signs certificates.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// files are a certificate, its key and its authority.
type files struct{ cert, key, ca string }

func authority(t *testing.T, name string) *ca {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	cert := must.Get(x509.ParseCertificate(der))(t)
	return &ca{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// certificate returns files with a certificate for a name, as servers and clients have them.
func certificate(t *testing.T, by *ca, name string) files {
	t.Helper()
	f := filesIn(t.TempDir())
	by.sign(t, f, name, 24*time.Hour)
	return f
}

func filesIn(dir string) files {
	return files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
}

// sign replaces the files by those of a new certificate.
func (a *ca) sign(t *testing.T, f files, name string, lasts time.Duration) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(lasts),
		DNSNames: []string{name, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	for path, text := range map[string][]byte{
		f.cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		f.key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), f.ca: a.pem,
	} {
		must.OK(t, os.WriteFile(path, text, 0o600))
	}
}

// pair returns the certificate of files.
func (f files) pair(t *testing.T) tls.Certificate {
	t.Helper()
	return must.Get(tls.LoadX509KeyPair(f.cert, f.key))(t)
}

// pool returns the authorities of files.
func (a *ca) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}
