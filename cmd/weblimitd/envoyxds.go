package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/internal/settings"
	"github.com/weblimit/weblimit/service/envoy/xds"
)

// xdsPrefix is what --envoy-config begins with where a control plane has the limits.
const xdsPrefix = "xds:"

// xdsOptions are the settings of the control plane that --envoy-config names.
type xdsOptions struct {
	node                       settings.String
	metadata                   settings.List
	headers, headersFile       settings.String
	tls                        settings.Bool
	caCert, cert, key, tlsName settings.String
	wait, retry, maxRetry      settings.Duration
	maxMessage                 settings.Int
}

func (o *xdsOptions) add(g settings.Group) {
	g.Add("envoy-xds-node-id", &o.node, "envoy-ratelimit", "name under which the control plane has limits for this service")
	g.Add("envoy-xds-node-metadata", &o.metadata, "", "what else the control plane hears of it: name=value, with commas between them")
	g.Secret("envoy-xds-headers", &o.headers, "headers for the control plane: name:value, with commas between them")
	g.Add("envoy-xds-headers-file", &o.headersFile, "", "file of headers for the control plane, one name: value per line")
	g.Add("envoy-xds-tls", &o.tls, "false", "connect to the control plane with TLS")
	g.Add("envoy-xds-cacert", &o.caCert, "", "PEM file of authorities that the control plane's certificate is of; those of the system without it").Needs("envoy-xds-tls")
	g.Add("envoy-xds-cert", &o.cert, "", "PEM file with the certificate that the control plane asks for").Needs("envoy-xds-tls")
	g.Add("envoy-xds-key", &o.key, "", "PEM file with its key").Needs("envoy-xds-tls")
	g.Add("envoy-xds-server-name", &o.tlsName, "", "name in the control plane's certificate; that of its address without it").Needs("envoy-xds-tls")
	o.wait = settings.Duration{Min: time.Millisecond, Max: 10 * time.Minute}
	o.retry, o.maxRetry = settings.Duration{Min: 10 * time.Millisecond, Max: time.Hour}, settings.Duration{Min: 10 * time.Millisecond, Max: time.Hour}
	g.Add("envoy-xds-wait", &o.wait, "10s", "how long the start waits for the control plane")
	g.Add("envoy-xds-retry", &o.retry, "1s", "pause before connecting again; it doubles each time")
	g.Add("envoy-xds-max-retry", &o.maxRetry, "30s", "the longest pause")
	o.maxMessage = settings.Int{Min: 64 << 10, Max: 64 << 20}
	g.Add("envoy-xds-max-message", &o.maxMessage, strconv.Itoa(16<<20), "bytes of what the control plane may send at once")
}

// fromXDS returns the address of the control plane, if --envoy-config names one.
func (o *envoyOptions) fromXDS() (address string, ok bool) {
	return strings.CutPrefix(string(o.envoyConfig), xdsPrefix)
}

// validateXDS checks the settings of the control plane, which do nothing without one.
func (o *options) validateXDS() error {
	address, ok := o.fromXDS()
	if !ok {
		for _, s := range o.set.All() {
			if strings.HasPrefix(s.Name, "envoy-xds-") && s.Origin() != settings.Unset {
				return fmt.Errorf("%s needs --envoy-config xds:HOST:PORT, the address of a control plane", s.Written())
			}
		}
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || n == 0 || host == "" || strings.Contains(host, "/") {
		return fmt.Errorf("--envoy-config: %q must be xds:HOST:PORT, such as xds:envoy-gateway:18001", o.envoyConfig)
	}
	if o.xds.maxRetry.Duration < o.xds.retry.Duration {
		return fmt.Errorf("--envoy-xds-max-retry is %v, and --envoy-xds-retry more: %v", o.xds.maxRetry.Duration, o.xds.retry.Duration)
	}
	return nil
}

// xdsSource returns the source of the control plane at an address.
func (o *options) xdsSource(address string, logger *slog.Logger) (*xds.Source, error) {
	config := xds.Config{
		Server: address, NodeID: string(o.xds.node), Wait: o.xds.wait.Duration, Retry: o.xds.retry.Duration, MaxRetry: o.xds.maxRetry.Duration,
		MaxMessage: o.xds.maxMessage.N, Logger: logger,
	}
	var err error
	if config.Metadata, err = o.xds.readMetadata(); err != nil {
		return nil, err
	}
	if config.Headers, err = o.xds.readHeaders(); err != nil {
		return nil, err
	}
	if o.xds.tls {
		config.TLS = o.xds.certificates
		if _, err := config.TLS(); err != nil { // at the start, and not each time
			return nil, err
		}
	}
	return xds.New(config)
}

// certificates reads the files of certificates.
func (o *xdsOptions) certificates() (*tls.Config, error) {
	config, err := settings.TLS{
		CA: string(o.caCert), Cert: string(o.cert), Key: string(o.key), CAFlag: "--envoy-xds-cacert", PairFlags: "--envoy-xds-cert and --envoy-xds-key",
	}.Config()
	if err == nil {
		config.ServerName = string(o.tlsName)
	}
	return config, err
}

func (o *xdsOptions) readMetadata() (map[string]string, error) {
	all := make(map[string]string, len(o.metadata))
	for _, entry := range o.metadata {
		name, value, ok := strings.Cut(entry, "=")
		if _, twice := all[name]; !ok || name == "" || twice {
			return nil, fmt.Errorf("--envoy-xds-node-metadata: %q must be name=value, and each name must be there once", entry)
		}
		all[name] = value
	}
	return all, nil
}

// readHeaders reads the headers. Errors repeat no value, since some are secret.
func (o *xdsOptions) readHeaders() (map[string]string, error) {
	all := map[string]string{}
	add := func(place, text string) error {
		name, value, ok := strings.Cut(text, ":")
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := all[name]; !ok || name == "" || twice {
			return errors.New(place + " must be name:value, and each name must be there once")
		}
		all[name] = strings.TrimSpace(value)
		return nil
	}
	if o.headers != "" {
		for i, text := range strings.Split(string(o.headers), ",") {
			if err := add(fmt.Sprintf("%s: number %d", settings.Variable("envoy-xds-headers"), i+1), text); err != nil {
				return nil, err
			}
		}
	}
	if o.headersFile == "" {
		return all, nil
	}
	lines, err := secure.ReadLines(string(o.headersFile))
	if err != nil {
		return nil, fmt.Errorf("--envoy-xds-headers-file: %w", err)
	}
	for _, line := range lines {
		if err := add(fmt.Sprintf("%s:%d: a line", o.headersFile, line.Number), line.Text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// xdsJSON is what operators see of the control plane.
type xdsJSON struct {
	Connected bool       `json:"connected"`
	Since     *time.Time `json:"since,omitempty"`
	Version   string     `json:"version"`
	Accepted  int64      `json:"accepted"`
	Refused   int64      `json:"refused"`
	Error     string     `json:"error,omitempty"`
}

func xdsStatus(s xds.Status) *xdsJSON {
	answer := &xdsJSON{Connected: s.Connected, Version: s.Version, Accepted: s.Accepted, Refused: s.Refused}
	if !s.Since.IsZero() {
		answer.Since = &s.Since
	}
	if s.Err != nil {
		answer.Error = s.Err.Error()
	}
	return answer
}
