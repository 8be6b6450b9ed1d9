package xds

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Config sets up a [Source]. Beside each field stands the variable of envoyproxy/ratelimit that it replaces, if there
// is one.
type Config struct {
	// Server is the control plane, as host:port. Required. (CONFIG_GRPC_XDS_SERVER_URL)
	Server string

	// NodeID is who asks: a control plane keeps resources for nodes that it knows. Envoy AI Gateway knows
	// "envoy-ai-gateway-ratelimit". Defaults to "envoy-ratelimit", which Envoy Gateway knows. (CONFIG_GRPC_XDS_NODE_ID)
	NodeID string

	// Metadata is what else the control plane hears of the node. Defaults to none. (CONFIG_GRPC_XDS_NODE_METADATA)
	Metadata map[string]string

	// Headers go with each stream, such as a token in "authorization". Without TLS whoever is on the way can read them.
	// Defaults to none. (CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS)
	Headers map[string]string

	// TLS returns how the control plane is known, and by what it knows this process. It is asked for each
	// connection, so that certificates can change. Defaults to connections without TLS. (CONFIG_GRPC_XDS_SERVER_USE_TLS
	// and others)
	TLS func() (*tls.Config, error)

	// Wait is how long the first Load waits for an answer. Defaults to 10s.
	Wait time.Duration

	// Retry is the pause after a stream was lost, and MaxRetry the longest one: it doubles with each stream that is
	// lost before MaxRetry is over. Each pause is shortened at random, by half at most. They default to 1s and 30s.
	// (XDS_CLIENT_BACKOFF_INITIAL_INTERVAL, XDS_CLIENT_BACKOFF_MAX_INTERVAL)
	Retry, MaxRetry time.Duration

	// MaxMessage is how many bytes an answer may have, at most 64 MiB. Defaults to 16 MiB.
	// (XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES)
	MaxMessage int

	// Logger hears of connections that are made and lost. Defaults to slog.Default().
	Logger *slog.Logger
}

// mostMessage bounds Config.MaxMessage: as much as all files of a folder may have.
const mostMessage = 64 << 20

// complete checks the configuration and sets defaults.
func (c *Config) complete() error {
	setDefault(&c.NodeID, "envoy-ratelimit")
	setDefault(&c.Wait, 10*time.Second)
	setDefault(&c.Retry, time.Second)
	setDefault(&c.MaxRetry, max(30*time.Second, c.Retry))
	setDefault(&c.MaxMessage, 16<<20)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Metadata, c.Headers = maps.Clone(c.Metadata), maps.Clone(c.Headers) // each connection reads them
	switch {
	case c.Server == "":
		return errors.New("weblimit: xds.Config: Server is missing")
	case !isAddress(c.Server):
		return fmt.Errorf("weblimit: xds.Config: Server must be host:port, such as envoy-gateway:18001, got %q", c.Server)
	case len(c.NodeID) > maxNode:
		return fmt.Errorf("weblimit: xds.Config: NodeID has %d bytes, the most is %d", len(c.NodeID), maxNode)
	case !utf8.ValidString(c.NodeID) || !isText(c.Metadata): // which no request could carry
		return errors.New("weblimit: xds.Config: NodeID and Metadata must be UTF-8 text")
	case c.Wait < time.Millisecond:
		return fmt.Errorf("weblimit: xds.Config: Wait must be at least 1ms, got %v", c.Wait)
	case c.Retry < 10*time.Millisecond:
		return fmt.Errorf("weblimit: xds.Config: Retry must be at least 10ms, got %v", c.Retry)
	case c.MaxRetry < c.Retry:
		return fmt.Errorf("weblimit: xds.Config: MaxRetry is %v, and Retry more: %v", c.MaxRetry, c.Retry)
	case c.MaxMessage < 1 || c.MaxMessage > mostMessage:
		return fmt.Errorf("weblimit: xds.Config: MaxMessage must be from 1 to %d bytes, got %d", mostMessage, c.MaxMessage)
	}
	return c.validateHeaders()
}

// isText reports whether names and values are UTF-8.
func isText(metadata map[string]string) bool {
	for name, value := range metadata {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return true
}

// maxNode bounds the name of a node.
const maxNode = 1024

// validateHeaders refuses headers that gRPC would refuse for every stream. It repeats no value: some are secret.
func (c *Config) validateHeaders() error {
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		switch {
		case name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "":
			return fmt.Errorf("weblimit: xds.Config: Headers: %q is no name of a header", name)
		case strings.HasPrefix(strings.ToLower(name), "grpc-"):
			return fmt.Errorf("weblimit: xds.Config: Headers: %q is a name that gRPC has for itself", name)
		case !strings.HasSuffix(strings.ToLower(name), "-bin") && strings.ContainsFunc(c.Headers[name], func(r rune) bool { return r < ' ' || r > '~' }):
			return fmt.Errorf("weblimit: xds.Config: Headers: the value of %q has characters that no header can have", name)
		}
	}
	return nil
}

// isAddress reports whether a text is host:port.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || strings.ContainsAny(host, "/ \t%?#@") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func setDefault[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}
