package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/internal/named"
)

// Config sets up a [Gateway].
type Config struct {
	// Policies are what gateways ask for by name, such as a policy.Set. Required.
	Policies core.Policies

	// Names are the policies that New makes ready, so that one that can't work is an error at start-up.
	// Others are made ready when a gateway first asks for them. See also [Check]. Defaults to none.
	Names []string

	// Limiter has the store and everything that the policies do not set. Store is required.
	Limiter core.Config

	// Trusted are the addresses of gateways. Subrequests from elsewhere are refused, but for those over
	// a unix socket, whose permissions say who may connect. Defaults to 127.0.0.0/8 and ::1.
	Trusted []netip.Prefix

	// Tokens are secrets of gateways, of 16 bytes or more. If there are any, a subrequest must have one in
	// the header Weblimit-Token, over a unix socket, too. Defaults to none.
	Tokens []string

	// Authenticated says that a handler in front of the Gateway has checked who asks, such as by a token of its own.
	// Otherwise, without Tokens or TLS, subrequests to a loopback address are refused whose Host is a
	// name with a dot: a web page in a browser of this machine could send them, under a name of its own that
	// resolves to this machine. Gateways send a Host such as weblimit, and the client's as X-Forwarded-Host.
	// Defaults to false.
	Authenticated bool

	// Proxies are in front of the gateway, which appends the address that it sees to X-Forwarded-For
	// instead of replacing the header. From the right, addresses in these networks are skipped, and the
	// first other one is the client. Defaults to none: then the header must have one address.
	Proxies []netip.Prefix

	// Timeout is how long a decision may take if the limit makes requests wait, at least 1ms. Then the
	// request is denied. It should be shorter than the time-out of the gateways, which would take the
	// limiter for down. Defaults to 200ms.
	Timeout time.Duration
}

// Gateway is an http.Handler for the subrequests of gateways. It is safe for concurrent use.
type Gateway struct {
	config  Config
	trusted []netip.Prefix
	token   keyfuncs.Condition // only asked if there are Tokens
	client  clientReader
	log     complaints

	limiters *named.Limiters[*adapter.Limiter]
}

var _ http.Handler = (*Gateway)(nil)

// defaultTimeout leaves time for a store that takes its whole default time-out of 100ms to answer.
const defaultTimeout = 200 * time.Millisecond

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// New returns a Gateway. It returns an error if the configuration can never work, or one of the Names.
func New(config Config) (*Gateway, error) {
	switch {
	case config.Policies == nil:
		return nil, errors.New("weblimit: gateway: Config.Policies is missing")
	case config.Limiter.Store == nil:
		return nil, errors.New("weblimit: gateway: Config.Limiter.Store is missing")
	case len(config.Limiter.Limits) > 0:
		return nil, errors.New("weblimit: gateway: Config.Limiter.Limits must be empty: the limits are those of the policies")
	case config.Timeout != 0 && config.Timeout < time.Millisecond || config.Timeout > store.MaxTimeout:
		return nil, fmt.Errorf("weblimit: gateway: Config.Timeout must be from 1ms to %v, got %v", store.MaxTimeout, config.Timeout)
	}
	// The gateway has found the client, and X-Forwarded-For, which policies see, says the same.
	config.Limiter.Silence = append(slices.Clone(config.Limiter.Silence), "WL001", "WL012", "WL014")
	settings, err := compose.NewSettings(config.Limiter)
	if err != nil {
		return nil, &store.ConfigError{Path: "gateway: Config.Limiter", Err: err}
	}
	g := &Gateway{config: config, trusted: slices.Clone(config.Trusted), limiters: named.New(settings, config.Policies, asked)}
	if len(g.trusted) == 0 {
		g.trusted = loopback
	}
	for _, p := range g.trusted {
		if !p.IsValid() {
			return nil, errors.New("weblimit: gateway: Config.Trusted has a prefix that is not valid")
		}
	}
	if len(config.Tokens) > 0 {
		g.token = keyfuncs.Tokens(TokenHeader, config.Tokens...)
		if err := g.token.Err(); err != nil {
			return nil, fmt.Errorf("weblimit: gateway: Config.Tokens: %w", err)
		}
	}
	if g.client, err = newClientReader(config.Proxies); err != nil {
		return nil, err
	}
	if g.config.Timeout == 0 {
		g.config.Timeout = defaultTimeout
	}
	if g.log.logger = config.Limiter.Logger; g.log.logger == nil {
		g.log.logger = slog.Default()
	}
	for _, name := range config.Names {
		if _, err := g.limiters.Get(name); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// asked is adapter.New, which panics if a key or condition needs a request of a framework.
func asked(limiter *core.Limiter) (a *adapter.Limiter, err error) {
	defer func() {
		if p := recover(); p != nil {
			var is bool
			if err, is = p.(error); !is {
				panic(p)
			}
		}
	}()
	return adapter.New(limiter, "gateway"), nil
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Before all else, so that whoever is no gateway does not even learn which policies there are.
	if reason := g.stranger(r); reason != "" {
		g.refuse(w, r, http.StatusForbidden, reason)
		return
	}
	if g.rebound(r) {
		g.refuse(w, r, http.StatusInternalServerError, reboundReason)
		return
	}
	way, policy, path, ok := split(pathOf(r))
	if !ok {
		http.NotFound(w, r)
		return
	}
	limiter, err := g.limiters.Get(policy)
	if err != nil {
		g.refuse(w, r, http.StatusInternalServerError, "the policy can't be asked", slog.String("policy", policy), slog.String("error", err.Error()))
		return
	}
	original := new(original)
	if reason, header := original.read(g, r, way, path); reason != "" {
		g.refuse(w, r, http.StatusInternalServerError, reason, slog.String("header", header))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), g.config.Timeout)
	defer cancel()
	original.ctx.Context = ctx
	limiter.Decide(original, &original.ctx, original.room[:])
	d := &original.ctx.Decision
	if limiter.Reserved(d) {
		// The end of the request is not known here. Nothing is given back for how it may end, and
		// estimates stay as they are.
		d.Settle(core.Outcome{})
	}
	// The policies may have been loaded without Validate. A limit on concurrent requests whose slots are free again at once would
	// never deny anybody, so the subrequest fails, which operators notice.
	if limit, found := holdsSlots(d); found {
		g.refuse(w, r, http.StatusInternalServerError, noEnd,
			slog.String("policy", policy), slog.String("limit", limit))
		return
	}
	answer(w, r, d, way)
}
