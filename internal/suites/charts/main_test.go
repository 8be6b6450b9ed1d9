package charts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
)

// daemon is the weblimitd that the tests ask.
var daemon string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "charts")
	if err == nil {
		defer os.RemoveAll(dir)
		daemon = filepath.Join(dir, "weblimitd")
		err = program.Build(dir, root+"/cmd/weblimitd", ".")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// keyPair returns a Secret of type kubernetes.io/tls, of an authority for itself.
func keyPair(t *testing.T) map[string]string {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate := must.Get(x509.CreateCertificate(rand.Reader, of, of, key.Public(), key))(t)
	asPEM := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return map[string]string{
		"tls.crt": asPEM("CERTIFICATE", certificate), "ca.crt": asPEM("CERTIFICATE", certificate),
		"tls.key": asPEM("PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(key))(t)),
	}
}
