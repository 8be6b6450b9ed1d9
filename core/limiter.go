package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weblimit/weblimit/keyfuncs"
)

// DefaultTimeout is how long a store may take to decide unless told otherwise.
const DefaultTimeout = 100 * time.Millisecond

// Config sets up a [Limiter].
type Config struct {
	// Store is where the limits' state lives. Required.
	Store Store

	// Limits are decided together for each request: all are charged, or none
	// is. At least one, each with a name of its own.
	Limits []Limit

	// Timeout is how long the store may take. A store that takes longer counts
	// as an outage; a client that hangs up does not. At least 1ms. Defaults to
	// DefaultTimeout.
	Timeout time.Duration

	// Replicas is how many processes share the store: during an outage each
	// grants that part of a limit whose policy is Local. Defaults to 1.
	Replicas int
}

// Limiter decides requests by its limits. It is safe for concurrent use and has
// nothing to close.
type Limiter struct {
	store   Store
	timeout time.Duration
	local   *Memory // stands in while the store is out; shared by the store's limiters
	limits  []limit
	policy  []string // the RateLimit-Policy field, with no spare capacity
}

// limit is a Limit made ready.
type limit struct {
	rule   Rule
	local  Rule // the rule's share of one replica
	key    keyfuncs.Func
	cost   int64
	outage Outage
}

// New makes a limiter, or says which part of the configuration can't work. It
// does not talk to the store, so it succeeds while the store is down.
func New(config Config) (*Limiter, error) {
	switch {
	case config.Store == nil:
		return nil, errors.New("weblimit: Config.Store is missing")
	case len(config.Limits) == 0:
		return nil, errors.New("weblimit: Config.Limits is empty")
	case config.Timeout != 0 && config.Timeout < time.Millisecond:
		return nil, fmt.Errorf("weblimit: Config.Timeout must be at least 1ms, got %v", config.Timeout)
	case config.Replicas < 0:
		return nil, fmt.Errorf("weblimit: Config.Replicas must be at least 1, got %d", config.Replicas)
	}
	l := &Limiter{
		store:   config.Store,
		timeout: config.Timeout,
		local:   standInFor(config.Store),
		limits:  make([]limit, len(config.Limits)),
	}
	if l.timeout == 0 {
		l.timeout = DefaultTimeout
	}
	declarations := make([]Declaration, len(config.Limits))
	for i, from := range config.Limits {
		to := &l.limits[i]
		var err error
		if to.rule, err = from.Rule(); err != nil {
			return nil, err
		}
		if to.key, err = from.key(); err != nil {
			return nil, err
		}
		to.local = to.rule.share(max(config.Replicas, 1), from.cost)
		to.cost, to.outage = from.cost, from.outage
		declarations[i] = Declaration{Rule: to.rule, Keys: to.key.Kind(), Named: from.named}
		for _, other := range declarations[:i] {
			if other.Rule.Name == to.rule.Name {
				return nil, fmt.Errorf("weblimit: limit %q: two limits of one limiter have this name; give each its own with Named", to.rule.Name)
			}
		}
	}
	if err := config.Store.Register(declarations...); err != nil {
		return nil, err
	}
	policy := policyField(l.limits)
	l.policy = []string{policy}[:1:1]
	return l, nil
}

func standInFor(store Store) *Memory {
	if s, ok := store.(interface{ standIn() *Memory }); ok { // it embeds a Registry
		return s.standIn()
	}
	return NewMemory()
}

// Must returns the limiter of [New], and panics if there was an error:
//
//	limiter := core.Must(core.New(core.Config{ … }))
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// ForLimits makes the limiter behind the adapters' Limit functions: these
// limits on this store, all else by default. It panics where New returns an error.
func ForLimits(store Store, limits []Limit) *Limiter {
	return Must(New(Config{Store: store, Limits: limits}))
}

// Allow decides a request: whether it may go on, and what to tell the client.
// Each limit charges the bucket of its key with its cost; a request that any
// limit denies is charged by none.
//
// It takes one round trip to the store, bounded by Config.Timeout and not by the
// request's context: a client that hangs up is charged all the same.
func (l *Limiter) Allow(r keyfuncs.Request) Decision {
	c := calls.Get().(*call)
	defer c.release()
	for i := range l.limits {
		limit := &l.limits[i]
		start := len(c.keys)
		keys, ok := limit.key.Append(c.keys, r)
		if !ok {
			keys = append(keys, missingKey...)
		}
		c.keys = keys
		c.add(limit, keys[start:len(keys):len(keys)], limit.cost)
	}
	return l.decide(r.Context(), c)
}

// missingKey is the bucket of requests that lack the key. No key function makes
// such a key, nor does AllowKey: theirs are printable.
const missingKey = "missing\x00"

// AllowKey decides all limits for one key, whatever their key functions and
// costs: for jobs, consumers and other code that has no HTTP request. The key is
// as [keyfuncs.Encode] writes it, "user:42" for what keyfuncs.User makes of user
// 42; any other string is fine too. A cost of 0 asks without charging. A
// negative cost is denied with ReasonInvalidCost.
func (l *Limiter) AllowKey(ctx context.Context, key string, cost int64) Decision {
	if cost < 0 {
		return Decision{Reason: ReasonInvalidCost, limiter: l, binding: -1}
	}
	c := calls.Get().(*call)
	defer c.release()
	c.keys = keyfuncs.AppendKey(c.keys, key)
	for i := range l.limits {
		c.add(&l.limits[i], c.keys, cost)
	}
	return l.decide(ctx, c)
}

// Peek tells what AllowKey would decide, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string, cost int64) (Decision, error) {
	if cost < 0 {
		return Decision{}, fmt.Errorf("weblimit: cost must not be negative, got %d", cost)
	}
	c := l.callFor(key, cost)
	defer c.release()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.store.Peek(ctx, c.checks, c.results); err != nil {
		return Decision{}, err
	}
	return l.verdict(c, nil), nil
}

// Reset forgets what key has used, under all limits of the limiter.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	c := l.callFor(key, 0)
	defer c.release()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return errors.Join(l.store.Reset(ctx, c.checks), l.local.Reset(ctx, c.checks))
}

func (l *Limiter) callFor(key string, cost int64) *call {
	c := calls.Get().(*call)
	c.keys = keyfuncs.AppendKey(c.keys, key)
	for i := range l.limits {
		c.add(&l.limits[i], c.keys, cost)
	}
	return c
}

func (l *Limiter) decide(ctx context.Context, c *call) Decision {
	if err := l.take(ctx, c); err != nil {
		return l.decideOutage(c, err)
	}
	return l.verdict(c, nil)
}

func (l *Limiter) take(ctx context.Context, c *call) error {
	if m, ok := l.store.(*Memory); ok {
		return m.decide(c.checks, c.results, true) // it can't block
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	return l.store.Take(ctx, c.checks, c.results)
}

// call is the working memory of one decision.
type call struct {
	keys    []byte
	limits  []*limit
	checks  []Check
	results []Result
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) add(l *limit, key []byte, cost int64) {
	c.limits = append(c.limits, l)
	c.checks = append(c.checks, Check{Key: key, Rule: &l.rule, Cost: cost})
	c.results = append(c.results, Result{})
}

// release returns c for reuse, and with it no key longer than keys usually are.
func (c *call) release() {
	if cap(c.keys) > 4096 {
		c.keys = nil
	}
	clear(c.checks)
	clear(c.limits)
	c.keys, c.limits, c.checks, c.results = c.keys[:0], c.limits[:0], c.checks[:0], c.results[:0]
	calls.Put(c)
}
