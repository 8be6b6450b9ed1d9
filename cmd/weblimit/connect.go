package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
)

// connection is something to ask: the API of package inspect, served by an application, or by this
// process over the application's Redis.
type connection struct {
	api   *client
	where string  // for people
	redis *direct // nil for an application
	close func()
}

// connect finds out where to ask.
func (a *app) connect(ctx context.Context) (*connection, error) {
	t, err := a.target()
	if err != nil {
		return nil, err
	}
	security, err := a.tls()
	if err != nil {
		return nil, err
	}
	if t.page != nil {
		transport := pageTransport(security)
		return &connection{
			api:   newClient(t.page, t.user, t.password, transport, a.timeout),
			where: t.page.Redacted(), close: transport.CloseIdleConnections,
		}, nil
	}
	rdb, err := a.redisClient(t, security)
	if err != nil {
		return nil, err
	}
	c := &connection{where: "Redis at " + t.redis.Redacted(), close: func() { _ = rdb.Close() }}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if c.redis, err = openDirect(ctx, rdb, a.keyPrefix(), a.timeout); err != nil {
		c.close()
		return nil, fmt.Errorf("%s: %w", c.where, err)
	}
	c.close = func() {
		c.redis.close()
		_ = rdb.Close()
	}
	// Listing blocks takes as long as Redis has keys.
	c.api = newClient(localPage, "", "", c.redis, 6*a.timeout)
	c.api.amend = c.redis.amend
	if c.redis.note != "" {
		(&show.Out{W: a.err}).Line(show.Plain, "weblimit: "+c.redis.note)
	}
	return c, nil
}

// tls returns how to trust servers, or nil for the defaults.
func (a *app) tls() (*tls.Config, error) {
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	file := a.caCert
	if file == "" {
		file = a.env("WEBLIMIT_CACERT")
	}
	if file != "" {
		text, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(text) {
			return nil, usagef("--cacert: the file has no certificate in PEM")
		}
	}
	if (a.cert == "") != (a.key == "") {
		return nil, usagef("--cert and --key belong together")
	}
	if a.cert != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w", err)
		}
		security.Certificates = []tls.Certificate{pair}
	}
	return security, nil
}

// isLoopback reports whether a host is this machine, whatever name servers say.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// get asks for what can be read, and decodes the answer.
func get[T any](ctx context.Context, c *connection, path string) (answer T, raw json.RawMessage, err error) {
	return ask[T](ctx, c, http.MethodGet, path, nil)
}

// post asks about a key, or for an action.
func post[T any](ctx context.Context, c *connection, path string, question any) (answer T, raw json.RawMessage, err error) {
	return ask[T](ctx, c, http.MethodPost, path, question)
}

func ask[T any](ctx context.Context, c *connection, method, path string, question any) (answer T, raw json.RawMessage, err error) {
	raw, err = c.api.do(ctx, method, path, question)
	if err != nil {
		return answer, nil, fmt.Errorf("%s: %w", c.where, err)
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, nil, fmt.Errorf("%s: the answer is not what weblimit expects: %w", c.where, err)
	}
	return answer, raw, nil
}

var errNoPage = errors.New("the answer does not come from a page of weblimit: is the URL that of the page?")
