package settings

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// TLS are the files by which a command trusts a server, and a server the command.
type TLS struct {
	CA, Cert, Key     string // files; each may be ""
	CAFlag, PairFlags string // for errors
}

// Config reads the files.
func (t TLS) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		text, err := ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.CAFlag, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM", t.CAFlag, t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, fmt.Errorf("%s belong together", t.PairFlags)
	}
	if t.Cert == "" {
		return config, nil
	}
	if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
		return nil, fmt.Errorf("%s: %w", t.PairFlags, err)
	}
	// Read again for each connection, so that a certificate can be renewed.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		return &pair, err
	}
	return config, nil
}
