package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
	"github.com/weblimit/weblimit/cmd/weblimitd/internal/secure"
	"github.com/weblimit/weblimit/cmd/weblimitd/internal/systemd"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/settings"
	weblimitprom "github.com/weblimit/weblimit/metrics/prometheus"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
	"github.com/weblimit/weblimit/metrics/top"
	"github.com/weblimit/weblimit/policy"
)

// daemon is everything that runs: newDaemon makes the parts, and run opens the listeners before it serves. After that the
// fields do not change, and need no lock; what changes is within the parts, each of which looks after itself.
type daemon struct {
	options  *options
	log      *slog.Logger
	instance string

	backend  *backend
	policies *policy.Set
	mounts   []*mount

	heavy   *top.Tracker
	denials *weblimitslog.Observer
	metrics *metrics
	traces  *traces // nil for none
	health  *health

	callers   *callers
	guard     *guard
	admin     *admin
	certs     map[string]*secure.Certificates // by listener
	listeners map[string]*listen.Bounded

	failed    chan error    // why a listener has ended. It has a place for each, so that none waits for a loop that has ended
	reloading chan struct{} // a lock that can be waited for with a deadline, and has a place for whoever reads files again
}

// newDaemon makes everything that needs no listener. It is what --check checks. What is wrong with settings, tokens,
// operators or certificates is found before the store is opened, which may migrate a database.
func newDaemon(ctx context.Context, o *options, logs io.Writer) (*daemon, error) {
	s := &daemon{
		options: o, log: o.newLogger(logs), certs: map[string]*secure.Certificates{}, listeners: map[string]*listen.Bounded{},
		metrics: newMetrics(), health: newHealth(bool(o.readyInOutage)), failed: make(chan error, 8), reloading: make(chan struct{}, 1),
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	tokens, err := secure.NewTokens(string(o.tokens), string(o.tokensFile))
	if err != nil {
		from := "--tokens-file"
		if o.tokensFile == "" {
			from = settings.Variable("tokens")
		}
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	s.callers = &callers{tokens}
	s.guard = &guard{ending: make(chan struct{}), callers: s.callers, certs: s.certs, health: s.health, metrics: s.metrics, max: int64(o.maxInFlight.N), logPanic: s.logPanic}
	who, err := newOperators(string(o.adminUsers), string(o.adminUsersFile), o.adminHosts)
	if err != nil {
		return nil, err
	}
	if err := s.loadCertificates(); err != nil {
		return nil, err
	}
	if s.instance, err = instanceName(string(o.instance)); err != nil {
		return nil, err
	}
	if s.backend, err = o.openBackend(ctx); err != nil {
		return nil, err
	}
	if err := s.observeAndMount(ctx, who); err != nil {
		s.backend.close()
		return nil, err
	}
	return s, nil
}

// validate checks settings against each other.
func (o *options) validate() error {
	if o.policy == "" && o.envoyConfig == "" {
		if o.variables["RUNTIME_ROOT"] != "" {
			return errors.New("nothing to decide by: RUNTIME_ROOT is a variable of envoyproxy/ratelimit, which is not read here: set --envoy-config to the folder of its files (docs/service/envoy.md)")
		}
		return errors.New("nothing to decide by: set --policy to a policy file (docs/service/policy.md), or --envoy-config")
	}
	if err := errors.Join(o.validateEnvoy(), o.set.Needless(), o.regionOptions.validate()); err != nil {
		return err
	}
	if bool(o.tlsGRPCOnly) && o.grpcListen.IsOff() {
		return errors.New("--tls-grpc-only leaves no listener with TLS, as --grpc-listen is off")
	}
	return o.listenOptions.validate()
}

// observeAndMount makes the policies, what observes them, and the parts that callers ask.
func (s *daemon) observeAndMount(ctx context.Context, who *operators) (err error) {
	o := s.options
	if s.backend.region == nil {
		s.backend.store.Registry().Watch(s.health.note)
	} // else an outage may be that of home, for limits that are decided there: the region's own store is known by its answers to pings
	s.heavy = top.New(top.Config{Exchange: s.backend.exchange, Instance: s.instance})
	defer func() {
		if err != nil {
			s.heavy.Close()
		}
	}()
	limits, err := weblimitprom.New(weblimitprom.Config{Registerer: s.metrics.registry, TopDenied: s.heavy.HighestDenials})
	if err != nil {
		return err
	}
	observers := []core.Observer{s.heavy, limits}
	if o.logDenials {
		config := weblimitslog.Config{Logger: s.log}
		if o.logSecret != "" {
			config.Secret = []byte(o.logSecret)
		}
		if s.denials, err = weblimitslog.New(config); err != nil {
			return fmt.Errorf("WEBLIMIT_LOG_SECRET: %w", err)
		}
		observers = append(observers, s.denials)
	}
	if s.traces, err = newTraces(ctx, os.Getenv, o.tracing, s.instance, s.log); err != nil {
		return err
	}
	if s.guard.traces = s.traces; s.traces != nil {
		observers = append(observers, s.traces.observer)
	}
	if s.policies, err = s.loadPolicies(); err != nil {
		return err
	}
	p := &parts{policies: s.policies, backend: s.backend, store: s.backend.store, health: s.health, observe: core.Observers(observers...), logger: s.log, options: o}
	for _, build := range mounts {
		m, err := build(p)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		s.mounts = append(s.mounts, m)
		if m.metrics != nil {
			s.metrics.registry.MustRegister(m.metrics)
		}
	}
	page, err := inspect.New(inspect.Config{
		Store: s.backend.store, Top: s.heavy, Logger: s.log, Authorize: who.authorize, Hosts: pageHosts(o),
	})
	if err != nil {
		return err
	}
	s.admin = &admin{daemon: s, operators: who, page: page}
	s.metrics.registry.MustRegister(&state{s.health, s.policies, s.guard, s.listeners, s.certs})
	return nil
}

// pageHosts are the hosts that the page takes. Where there is none it takes addresses and localhost, as
// operators.knowsHost does, which has looked before. A unix socket has no browser.
func pageHosts(o *options) []string {
	if len(o.adminHosts) == 0 {
		return nil
	}
	return append([]string{"localhost", "127.0.0.1", "::1"}, o.adminHosts...)
}

// reloadTimeout bounds what reload waits for.
const reloadTimeout = 20 * time.Second

// reload reads everything again that may change while serving. Each is all or nothing, and one that is
// wrong does not keep the others from changing.
func (s *daemon) reload(ctx context.Context) error {
	select {
	case s.reloading <- struct{}{}:
		defer func() { <-s.reloading }()
	case <-ctx.Done(): // a file hangs, whose reload is under way
		return fmt.Errorf("another reload is under way: %w", ctx.Err())
	}
	var errs []error
	note := func(what string, err error) {
		s.metrics.reloaded(what, err)
		if err != nil {
			errs = append(errs, err)
			if what != "policy" { // the policies log it
				s.log.Error("weblimitd: not reloaded, all stays as it was", "what", what, "error", err.Error())
			}
		}
	}
	if s.policies != nil {
		note("policy", s.policies.Reload(ctx))
	}
	seen := map[*secure.Certificates]bool{}
	for _, name := range []string{"data", "grpc", "admin"} {
		if c := s.certs[name]; c != nil && !seen[c] {
			seen[c] = true
			_, err := c.Reload()
			note("certificates", err)
		}
	}
	if s.callers.tokens != nil {
		_, err := s.callers.tokens.Reload()
		note("tokens", err)
	}
	_, err := s.admin.operators.reload()
	note("operators", err)
	for _, m := range s.mounts {
		if m.secrets != nil {
			_, err := m.secrets()
			note("secrets", err)
		}
		if m.reload != nil {
			note(m.name, m.reload(ctx))
		}
	}
	return errors.Join(errs...)
}

func (s *daemon) logPanic(what string, p any, stack []byte) {
	s.log.Error("weblimitd: a request was ended by a panic", "handler", what, "panic", fmt.Sprint(p), "stack", string(stack))
}

// close ends what newDaemon has made.
func (s *daemon) close() {
	if s.denials != nil {
		s.denials.Flush()
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	s.traces.close(ctx)
	s.heavy.Close()
	s.backend.close()
}

// instanceName returns the name of this process among all.
func instanceName(set string) (string, error) {
	if set == "" {
		host, _ := os.Hostname()
		digits := make([]byte, 3)
		_, _ = rand.Read(digits) // never fails
		set = strings.Map(func(r rune) rune {
			if isNameByte(r) {
				return r
			}
			return '-'
		}, host)
		return set[:min(len(set), 48)] + "-" + hex.EncodeToString(digits), nil
	}
	if len(set) > 64 || strings.ContainsFunc(set, func(r rune) bool { return !isNameByte(r) }) {
		return "", fmt.Errorf("--instance: %q must have 1 to 64 letters, digits and . _ - of ASCII", set)
	}
	return set, nil
}

func isNameByte(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

var _ listen.Passed = (*systemd.Sockets)(nil)
