package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/internal/settings"
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
	if t.page != nil {
		files := settings.TLS{CA: string(a.page.caCert), Cert: string(a.page.cert), Key: string(a.page.key)}
		files.CAFlag, files.PairFlags = "--cacert", "--cert and --key"
		security, err := files.Config()
		if err != nil {
			return nil, usageError{err}
		}
		transport := pageTransport(security)
		return &connection{
			api:   newClient(t.page, t.user, t.password, transport, a.timeout.Duration),
			where: t.page.Redacted(), close: transport.CloseIdleConnections,
		}, nil
	}
	rdb, err := redisClient(t.redis)
	if err != nil {
		return nil, err
	}
	c := &connection{where: "Redis at " + t.redis.URL.Redacted(), close: func() { _ = rdb.Close() }}
	ctx, cancel := context.WithTimeout(ctx, a.timeout.Duration)
	defer cancel()
	if c.redis, err = openDirect(ctx, rdb, a.keyPrefix(), a.timeout.Duration); err != nil {
		c.close()
		return nil, fmt.Errorf("%s: %w", c.where, err)
	}
	c.close = func() {
		c.redis.close()
		_ = rdb.Close()
	}
	// Listing blocks takes as long as Redis has keys.
	c.api = newClient(localPage, "", "", c.redis, 6*a.timeout.Duration)
	c.api.amend = c.redis.amend
	if c.redis.note != "" {
		(&show.Out{W: a.err}).Line(show.Plain, "weblimit: "+c.redis.note)
	}
	return c, nil
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
