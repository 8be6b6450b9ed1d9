package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Limiter decides requests by its limits. It is safe for concurrent use and has
// nothing to close.
type Limiter struct {
	store     Store
	timeout   time.Duration
	instead   *standIn  // while the store is out; shared by the store's limiters
	fallback  *fallback // what Config.Fallback asks for, or nil
	limits    []limit
	bypass    []keyfuncs.Condition
	headers   headerStyle
	details   []detail
	onWarning func(context.Context, Warning)
	warned    *Memory // which warnings were sent; nil if nobody wants them
	advisor   *advisor
}

// limit is a Limit made ready.
type limit struct {
	rule     Rule
	local    Rule // the rule's share of one replica
	replicas int
	key      keyfuncs.Func
	cost     int64
	costBy   func(keyfuncs.Request) int64 // instead of cost, if not nil
	when     []keyfuncs.Condition
	tiers    *tiers // nil if the rule is all there is
	missing  MissingKey
	outage   Outage
	shadow   bool
	warnAt   []float64 // in rising order
}

// New makes a limiter, or says which part of the configuration can't work. It
// does not talk to the store, so it succeeds while the store is down.
func New(config Config) (*Limiter, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	l := &Limiter{
		store:     config.Store,
		timeout:   config.Timeout,
		instead:   standInFor(config.Store),
		limits:    make([]limit, len(config.Limits)),
		bypass:    slices.Clone(config.Bypass),
		details:   sortDetails(config.Details),
		onWarning: config.OnWarning,
		advisor:   newAdvisor(config.Logger, config.Silence),
	}
	if l.timeout == 0 {
		l.timeout = DefaultTimeout
	}
	if !config.LimitPreflights {
		l.bypass = append(l.bypass, keyfuncs.Preflight())
	}
	declarations := make([]Declaration, len(config.Limits))
	for i, from := range config.Limits {
		if err := l.prepare(&l.limits[i], from, max(config.Replicas, 1)); err != nil {
			return nil, err
		}
		if config.OnWarning != nil && len(from.warnAt) > 0 && l.warned == nil {
			l.warned, _ = NewMemoryWith(MemoryConfig{MaxBuckets: maxWarned})
		}
		declarations[i] = Declaration{Rule: l.limits[i].rule, Keys: l.limits[i].key.Kind(), Named: from.named}
		for _, other := range declarations[:i] {
			if other.Rule.Name == declarations[i].Rule.Name {
				return nil, fmt.Errorf("weblimit: limit %q: two limits of one limiter have this name; give each its own with Named", other.Rule.Name)
			}
		}
	}
	if err := config.Store.Register(declarations...); err != nil {
		return nil, err
	}
	if err := l.prepareFallback(config.Fallback, max(config.Replicas, 1)); err != nil {
		return nil, err
	}
	l.headers = newHeaderStyle(config, l.limits)
	l.advisor.builtWhileServing()
	return l, nil
}

// prepare makes a Limit ready.
func (l *Limiter) prepare(to *limit, from Limit, replicas int) (err error) {
	if to.rule, err = from.Rule(); err != nil {
		return err
	}
	if to.key, err = from.key(); err != nil {
		return err
	}
	to.local, to.replicas = to.rule.share(replicas, from.cost), replicas
	to.cost, to.costBy, to.when = from.cost, from.costBy, from.when
	l.advisor.readsPeer = l.advisor.readsPeer || to.key.Reads(keyfuncs.Peer())
	l.advisor.readsFramework = l.advisor.readsFramework || to.key.Reads(keyfuncs.Framework())
	to.missing, to.outage, to.shadow, to.warnAt = from.missing, from.outage, from.shadow, from.warnAt
	if from.tiers != nil {
		to.tiers = &tiers{choose: from.tiers, base: &to.rule, cost: from.cost, advise: l.advisor.advise}
	}
	return nil
}

func standInFor(store Store) *standIn {
	if s, ok := store.(interface{ standIn() *standIn }); ok { // it embeds a Registry
		return s.standIn()
	}
	return newStandIn()
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
// Each limit that applies charges the bucket of its key with its cost; a request
// that any limit denies is charged by none.
//
// It takes one round trip to the store, bounded by Config.Timeout and not by the
// request's context: a client that hangs up is charged all the same. A bypassed
// request, or one that no limit applies to, takes none.
func (l *Limiter) Allow(r keyfuncs.Request) Decision {
	l.advisor.look(l, r)
	for i := range l.bypass {
		if l.bypass[i].Match(r) {
			return Decision{Allowed: true, Reason: ReasonBypassed, limiter: l, binding: -1}
		}
	}
	c := calls.Get().(*call)
	defer c.release()
	for i := range l.limits {
		if reason := c.ask(&l.limits[i], r); reason != ReasonUndecided {
			return l.refuse(reason, &l.limits[i].rule)
		}
	}
	return l.decide(r.Context(), c, asker{request: r})
}

// ask adds the check of a limit, if it applies to the request. It returns a
// reason to deny the request without asking the store, or ReasonUndecided.
func (c *call) ask(limit *limit, r keyfuncs.Request) Reason {
	for i := range limit.when {
		if !limit.when[i].Match(r) {
			return ReasonUndecided
		}
	}
	start := len(c.keys)
	keys, ok := limit.key.Append(c.keys, r)
	if !ok {
		switch {
		case limit.missing == ShareBucket:
			keys = append(keys, missingKey...)
		case limit.missing == DenyRequest && !limit.shadow:
			return ReasonMissingKey
		default:
			return ReasonUndecided
		}
	}
	c.keys = keys
	rule, cost := &limit.rule, limit.cost
	if limit.tiers != nil {
		rule = limit.tiers.rule(r)
	}
	if limit.costBy != nil {
		if cost = limit.costBy(r); cost < 0 {
			if limit.shadow {
				return ReasonUndecided
			}
			return ReasonInvalidCost
		}
	}
	c.add(limit, rule, keys[start:len(keys):len(keys)], cost)
	return ReasonUndecided
}

// refuse denies a request that the store was not asked about, for a limit's sake.
func (l *Limiter) refuse(reason Reason, rule *Rule) Decision {
	d := Decision{Reason: reason, limiter: l, binding: -1, count: 1}
	d.few[0].Rule = rule
	return d
}

// missingKey is the bucket of requests that lack the key. No key function makes
// such a key, nor does AllowKey: theirs are printable.
const missingKey = "missing\x00"

// AllowKey decides all limits for one key, whatever their key functions, costs,
// conditions and tiers: for jobs, consumers and other code that has no HTTP
// request. The key is as [keyfuncs.Encode] writes it, "user:42" for what
// keyfuncs.User makes of user 42; any other string is fine too. A cost of 0 asks
// without charging. A negative cost is denied with ReasonInvalidCost.
func (l *Limiter) AllowKey(ctx context.Context, key string, cost int64) Decision {
	if cost < 0 {
		return Decision{Reason: ReasonInvalidCost, limiter: l, binding: -1}
	}
	c := l.callFor(key, cost)
	defer c.release()
	return l.decide(ctx, c, asker{key: key, cost: cost})
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
	return l.verdict(ctx, c, nil), nil
}

// Reset forgets what key has used, under all limits of the limiter.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	c := l.callFor(key, 0)
	defer c.release()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return errors.Join(l.store.Reset(ctx, c.checks), l.instead.memory.Reset(ctx, c.checks))
}

func (l *Limiter) callFor(key string, cost int64) *call {
	c := calls.Get().(*call)
	c.keys = keyfuncs.AppendKey(c.keys, key)
	for i := range l.limits {
		c.add(&l.limits[i], &l.limits[i].rule, c.keys, cost)
	}
	return c
}

// asker is who a decision is for, should other limits have to decide it.
type asker struct {
	request keyfuncs.Request // or, of AllowKey:
	key     string
	cost    int64
}

func (l *Limiter) decide(ctx context.Context, c *call, who asker) Decision {
	if err := l.take(ctx, c); err != nil {
		return l.decideOutage(ctx, c, who, err)
	}
	return l.verdict(ctx, c, nil)
}

func (l *Limiter) take(ctx context.Context, c *call) error {
	if len(c.checks) == 0 {
		return nil // no limit applies
	}
	if m, ok := l.store.(*Memory); ok {
		return m.decide(c.checks, c.results, true) // it can't block
	}
	bounded := within(ctx, l.timeout)
	defer bounded.release()
	if err := l.store.Take(bounded, c.checks, c.results); err != nil {
		return err
	}
	l.instead.answered()
	if l.instead.carries() {
		l.carry(bounded, c)
	}
	l.inspectStore()
	return nil
}

// call is the working memory of one decision.
type call struct {
	keys    []byte
	limits  []*limit
	checks  []Check
	results []Result
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) add(l *limit, rule *Rule, key []byte, cost int64) {
	c.limits = append(c.limits, l)
	c.checks = append(c.checks, Check{Key: key, Rule: rule, Cost: cost, Shadow: l.shadow})
	c.results = append(c.results, Result{})
}

// release returns c for reuse, and with it no key longer than keys usually are.
func (c *call) release() {
	if cap(c.keys) > 4096 {
		c.keys = nil
	}
	c.keys = c.keys[:0]
	c.reset()
	calls.Put(c)
}

// reset forgets the checks, and keeps the keys.
func (c *call) reset() {
	clear(c.checks)
	clear(c.limits)
	c.limits, c.checks, c.results = c.limits[:0], c.checks[:0], c.results[:0]
}
