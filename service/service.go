package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/browser"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/service/internal/named"
)

// Config sets up a [Service].
type Config struct {
	// Policies are what callers ask for by name; a policy.Set is some. Required.
	Policies core.Policies

	// Store holds the state of all policies. Required.
	Store core.Store

	// Replicas is how many processes of the service share the store; see core.Config. Defaults to 1.
	Replicas int

	// Observe hears of every decision. The Adapter of its observations is "service". Defaults to none.
	Observe core.Observer

	// OnWarning is called for levels of [core.Limit.WarnAt]; see core.Config. Callers that ask for warnings get
	// those of their own calls in any case. Defaults to none.
	OnWarning func(context.Context, core.Warning)

	// Logger gets what operators should know. Defaults to slog.Default().
	Logger *slog.Logger

	// Secrets seal reservations, each at least 32 random bytes. The first seals, all open: to change the
	// secret, put the new one second everywhere, then first, and take the old one away after
	// ReservationTTL. All processes on one store need the same. Defaults to a random secret, which ends
	// with the process: a reservation can then be settled by this process alone, and the log says so if
	// others share the store.
	Secrets [][]byte

	// ReservationTTL is how long a reservation can be settled, from 1s to 24h. Defaults to 10m.
	ReservationTTL time.Duration

	// Tokens are accepted in Authorization: Bearer …, each at least 16 bytes; more than one for the time
	// in which callers change theirs. Defaults to none: whoever reaches the handler is a caller.
	Tokens []string

	// Hosts are the hosts under which the service may be asked, without ports. Defaults to all.
	Hosts []string

	// MaxInFlight bounds how many calls are decided at once. Further ones are answered with 503 at
	// once. Defaults to 1024.
	MaxInFlight int

	// MaxBody bounds the body of a call, in bytes. Defaults to 64 KiB.
	MaxBody int

	// MaxChecks bounds how many checks one call has, together or not. Defaults to 64, the most is 255.
	MaxChecks int

	// MaxRoutes bounds how many different routes observers are shown, since callers name them: further
	// ones are shown as none. Defaults to 1000.
	MaxRoutes int
}

// The defaults of a Config.
const (
	defaultReservationTTL = 10 * time.Minute
	defaultInFlight       = 1024
	defaultBody           = 64 << 10
	defaultChecks         = 64
	defaultRoutes         = 1000
)

// bodyTime is how long the body of a call may take to arrive.
const bodyTime = 5 * time.Second

// Service decides for callers. It is safe for concurrent use.
type Service struct {
	config   Config
	log      *slog.Logger
	settings *compose.Settings
	limiters *named.Limiters[*core.Limiter]
	inFlight chan struct{}
	tokens   [][sha256.Size]byte
	routes   routes
	seal     seal
	marks    marks
	scratch  sync.Pool // of *scratch
	mux      *http.ServeMux

	// complained is the second of the last line in the log about a policy that can't be used: callers
	// choose how often they ask.
	complained atomic.Int64
}

// New returns a service, or an error that says which part of the configuration can't work. It does not
// talk to the store.
func New(config Config) (*Service, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("weblimit: service.Config: %w", err)
	}
	settings, err := compose.NewSettings(core.Config{
		Store: config.Store, Replicas: config.Replicas, Observe: config.Observe, OnWarning: config.OnWarning, Logger: config.Logger,
	})
	if err != nil {
		return nil, err
	}
	s := &Service{config: config, log: config.Logger, settings: settings, inFlight: make(chan struct{}, config.MaxInFlight)}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.limiters = named.New(settings, config.Policies, func(l *core.Limiter) (*core.Limiter, error) { return l, nil })
	s.routes.most = config.MaxRoutes
	s.scratch.New = func() any { return new(scratch) }
	for _, token := range config.Tokens { // hashed, so that all have one length: see hasToken
		s.tokens = append(s.tokens, sha256.Sum256([]byte(token)))
	}
	if err := s.seal.init(config.Secrets); err != nil {
		return nil, err
	}
	if len(config.Secrets) == 0 && !config.Store.Registry().Server().InProcess {
		s.log.Warn("weblimit: service: without Secrets, a reservation can be settled by the process that has made it, and by no other")
	}
	if err := s.marks.init(config.Store, config.ReservationTTL); err != nil {
		return nil, err
	}
	s.mux = s.newMux()
	return s, nil
}

// complete checks a configuration and sets its defaults.
func (c *Config) complete() error {
	type bounded struct {
		name             string
		value            *int
		otherwise, least int
		most             int
	}
	for _, b := range []bounded{
		{"MaxInFlight", &c.MaxInFlight, defaultInFlight, 1, 1 << 20},
		{"MaxBody", &c.MaxBody, defaultBody, 1 << 10, 16 << 20},
		{"MaxChecks", &c.MaxChecks, defaultChecks, 1, 255},
		{"MaxRoutes", &c.MaxRoutes, defaultRoutes, 1, 1 << 20},
	} {
		if *b.value == 0 {
			*b.value = b.otherwise
		}
		if *b.value < b.least || *b.value > b.most {
			return fmt.Errorf("%s must be from %d to %d, got %d", b.name, b.least, b.most, *b.value)
		}
	}
	if c.ReservationTTL == 0 {
		c.ReservationTTL = defaultReservationTTL
	}
	switch {
	case c.Policies == nil:
		return errors.New("the field Policies is missing")
	case c.ReservationTTL < time.Second || c.ReservationTTL > 24*time.Hour:
		return fmt.Errorf("ReservationTTL must be from 1s to 24h, got %v", c.ReservationTTL)
	}
	if err := checkSecrets(c.Secrets); err != nil {
		return err
	}
	for i, token := range c.Tokens {
		if len(token) < 16 {
			return fmt.Errorf("token %d is shorter than 16 bytes", i+1)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("token %d has a character that no header can have; is there a line break at its end?", i+1)
		}
	}
	c.Tokens, c.Hosts = slices.Clone(c.Tokens), slices.Clone(c.Hosts) // seal has copies of the secrets
	for i, host := range c.Hosts {
		var ok bool
		if c.Hosts[i], ok = browser.Host(host); !ok {
			return fmt.Errorf("Config.Hosts[%d] must be a host name without scheme and port, such as limits.example.com, got %q", i, host)
		}
	}
	return nil
}

// SetSecrets replaces Config.Secrets while the service runs, in the steps that are described there. It returns an error, and
// changes nothing, if there are none or one is too short. It may be called concurrently.
func (s *Service) SetSecrets(secrets ...[]byte) error {
	if len(secrets) == 0 {
		return errors.New("weblimit: service: SetSecrets needs a secret")
	}
	if err := checkSecrets(secrets); err != nil {
		return fmt.Errorf("weblimit: service: %w", err)
	}
	s.seal.set(secrets)
	return nil
}

// Handler serves the API below /v1/.
func (s *Service) Handler() http.Handler { return s }

// Drain waits until the store knows of everything that was settled, or until ctx ends, at most ten
// seconds if it has no deadline. Call it at shutdown, after the server has stopped.
func (s *Service) Drain(ctx context.Context) error { return s.settings.Drain(ctx) }

// limiter returns the limiter of a policy.
func (s *Service) limiter(name, pointer string) (*core.Limiter, error) {
	limiter, err := s.limiters.Get(name)
	switch {
	case errors.Is(err, core.ErrNoPolicy):
		return nil, &problem{status: http.StatusNotFound, pointer: pointer, detail: fmt.Sprintf("There is no policy %q.", name)}
	case err != nil:
		if last, now := s.complained.Load(), time.Now().Unix(); last != now && s.complained.CompareAndSwap(last, now) {
			s.log.Error("weblimit: service: a policy can't be used", slog.String("policy", name), slog.String("error", err.Error()))
		}
		return nil, &problem{status: http.StatusInternalServerError, pointer: pointer, detail: fmt.Sprintf("The policy %q can't be used; the log says why.", name)}
	}
	return limiter, nil
}

// routes bounds the routes that observers are shown.
type routes struct {
	most int

	mu    sync.RWMutex
	known map[string]struct{} // Guarded by mu.
}

// shows reports whether observers are shown a route. A route that is known once stays known: metrics keep a series for
// each, so a caller that names random routes must not push out those of others.
func (r *routes) shows(route string) bool {
	r.mu.RLock()
	_, ok := r.known[route]
	full := len(r.known) >= r.most
	r.mu.RUnlock()
	if ok || full { // nearly always, so that callers need no lock against each other
		return ok
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = make(map[string]struct{})
	}
	if len(r.known) < r.most {
		r.known[route] = struct{}{}
	}
	_, ok = r.known[route]
	return ok
}
