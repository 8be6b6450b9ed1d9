package secure

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxPEM bounds each file of certificates.
const maxPEM = 4 << 20

// Files name a server's certificate and key, and whom it lets in.
type Files struct {
	Cert, Key string
	ClientCA  string   // callers need a certificate of it; "" for none
	Names     []string // which a caller's certificate has one of: DNS names, URIs, or the common name; none for all
}

// Certificates are read from files, which may change. Connections that are open stay open: ask LetsIn for each request.
type Certificates struct {
	files Files
	live  atomic.Pointer[loaded]
}

type loaded struct {
	config *tls.Config
	until  time.Time
	sum    [sha256.Size]byte // of all files

	mu    sync.Mutex
	known map[[sha256.Size]byte]bool // callers' certificates, and whether these files let them in. Guarded by mu.
}

// maxKnown bounds how many certificates of callers are remembered. Each has a valid signature, but may be short-lived.
const maxKnown = 10_000

// Load reads the files.
func Load(files Files) (*Certificates, error) {
	c := &Certificates{files: files}
	next, err := c.read()
	if err != nil {
		return nil, err
	}
	c.live.Store(next)
	return c, nil
}

// Config returns the settings of a server, which follow the files. protocols are for ALPN.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config := c.live.Load().config
			if len(protocols) > 0 {
				config = config.Clone()
				config.NextProtos = protocols
			}
			return config, nil
		},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { // for servers that ask whether there is one
			return &c.live.Load().config.Certificates[0], nil
		},
	}
}

// LetsIn reports whether a connection with a caller's certificate would be let in now: since its handshake, the
// certificate may have ended, and another authority may have taken the place of its own.
func (c *Certificates) LetsIn(state *tls.ConnectionState) bool {
	if !c.Mutual() {
		return true
	}
	if state == nil || len(state.PeerCertificates) == 0 {
		return false
	}
	leaf := state.PeerCertificates[0]
	return time.Now().Before(leaf.NotAfter) && c.live.Load().letsIn(leaf, state.PeerCertificates[1:])
}

// letsIn reports whether these authorities let a certificate in. The answer is remembered, since a caller has one certificate
// for all of its requests, until the files change or too many are known: so an authority that ends by itself is noticed
// in handshakes, and over open connections when its file changes. The names were checked in the handshake, and are settings.
func (l *loaded) letsIn(leaf *x509.Certificate, more []*x509.Certificate) bool {
	hash := sha256.Sum256(leaf.Raw)
	l.mu.Lock()
	in, known := l.known[hash]
	l.mu.Unlock()
	if known {
		return in
	}
	between := x509.NewCertPool()
	for _, cert := range more {
		between.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: l.config.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= maxKnown {
		l.known = make(map[[sha256.Size]byte]bool)
	}
	l.known[hash] = err == nil
	return err == nil
}

// Until returns when the certificate ends.
func (c *Certificates) Until() time.Time { return c.live.Load().until }

// Mutual reports whether callers need a certificate.
func (c *Certificates) Mutual() bool { return c.files.ClientCA != "" }

// Reload reads the files again, and reports whether they have changed. If anything is wrong with them,
// nothing changes.
func (c *Certificates) Reload() (changed bool, err error) {
	next, err := c.read()
	if err != nil {
		return false, err
	}
	if next.sum == c.live.Load().sum {
		return false, nil
	}
	c.live.Store(next)
	return true, nil
}

func (c *Certificates) read() (*loaded, error) {
	f := &c.files
	cert, err := readSmall(f.Cert, maxPEM)
	if err != nil {
		return nil, err
	}
	key, err := readSmall(f.Key, maxPEM)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.Cert, f.Key, err)
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s has ended at %s", f.Cert, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	sum := sha256.New()
	for _, text := range [][]byte{cert, key} {
		one := sha256.Sum256(text)
		sum.Write(one[:])
	}
	if f.ClientCA != "" {
		ca, err := readSmall(f.ClientCA, maxPEM)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("%s has no certificate in PEM", f.ClientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.SessionTicketsDisabled = true // a resumed session would not be checked by new files
		config.VerifyConnection = func(state tls.ConnectionState) error { return f.check(state) }
		sum.Write(ca)
	}
	return &loaded{config: config, until: pair.Leaf.NotAfter, sum: [sha256.Size]byte(sum.Sum(nil))}, nil
}

var errName = errors.New("the certificate has none of the names that are let in")

// check reports whether a caller's certificate has one of the names.
func (f *Files) check(state tls.ConnectionState) error {
	if len(f.Names) == 0 {
		return nil
	}
	if len(state.PeerCertificates) == 0 {
		return errName
	}
	leaf := state.PeerCertificates[0]
	has := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	for _, uri := range leaf.URIs {
		has = append(has, uri.String())
	}
	for _, name := range has {
		if name != "" && slices.Contains(f.Names, name) {
			return nil
		}
	}
	return errName
}
