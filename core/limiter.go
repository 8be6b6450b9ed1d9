package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	tiers    *tiers   // nil if the rule is all there is
	scaling  *scaling // nil if the numbers stay
	reserve  *reserve // nil if there is one class of requests
	variants *variants
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
		if config.OnWarning != nil && len(l.limits[i].warnAt) > 0 && l.warned == nil {
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
	if err := l.prepareFallback(config.Fallback); err != nil {
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
	if from.scale != nil {
		to.scaling = newScaling(from.scale, from.name, from.cost, l.advisor.advise)
	}
	to.variants, to.reserve = new(variants), from.reserve
	if from.warnAt == nil && from.algorithm == Calendar && l.onWarning != nil {
		to.warnAt = calendarLevels
	}
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
	var d Decision
	l.Decide(r, &d, nil)
	return d
}

// Limits returns how many limits the limiter has.
func (l *Limiter) Limits() int { return len(l.limits) }

// Decide is Allow for adapters: it writes the decision to where it will stay,
// such as a [DecisionContext], since each copy of one costs as much as making its
// key. d must be a zero Decision that nobody else has.
//
// room is for the results of more than one limit, if there is enough of it: else
// they are one allocation more. Nobody else may have it either.
func (l *Limiter) Decide(r keyfuncs.Request, d *Decision, room []LimitResult) {
	if l.advisor.looks.Load() < adviceLooks {
		l.advisor.look(l, r)
	}
	d.limiter, d.binding, d.many = l, -1, room[:0]
	for i := range l.bypass {
		if l.bypass[i].Match(r) {
			d.Allowed, d.Reason = true, ReasonBypassed
			return
		}
	}
	c := calls.Get().(*call)
	defer c.release()
	for i := range l.limits {
		if reason := c.ask(&l.limits[i], r); reason != ReasonUndecided {
			d.refuse(reason, &l.limits[i].rule)
			return
		}
	}
	l.decide(r.Context(), c, asker{request: r}, d)
}

// AllowKey decides all limits for one key, whatever their key functions, costs,
// conditions and tiers: for jobs, consumers and other code that has no HTTP
// request. The key is as [keyfuncs.Encode] writes it, "user:42" for what
// keyfuncs.User makes of user 42; any other string is fine too. A cost of 0 asks
// without charging. A negative cost is denied with ReasonInvalidCost.
func (l *Limiter) AllowKey(ctx context.Context, key string, cost int64) Decision {
	d := Decision{limiter: l, binding: -1}
	if cost < 0 {
		d.Reason = ReasonInvalidCost
		return d
	}
	c := l.callFor(ctx, key, cost)
	defer c.release()
	l.decide(ctx, c, asker{key: key, cost: cost}, &d)
	return d
}

// Peek tells what AllowKey would decide, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string, cost int64) (Decision, error) {
	if cost < 0 {
		return Decision{}, fmt.Errorf("weblimit: cost must not be negative, got %d", cost)
	}
	c := l.callFor(ctx, key, cost)
	defer c.release()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if err := l.store.Peek(ctx, c.checks, c.results); err != nil {
		return Decision{}, err
	}
	d := Decision{limiter: l, binding: -1}
	d.sumUp(ctx, c)
	return d, nil
}

// Reset forgets what key has used, under all limits of the limiter.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	c := l.callFor(ctx, key, 0)
	defer c.release()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return errors.Join(l.store.Reset(ctx, c.checks), l.instead.memory.Reset(ctx, c.checks))
}

func (l *Limiter) callFor(ctx context.Context, key string, cost int64) *call {
	c := calls.Get().(*call)
	c.keys = keyfuncs.AppendKey(c.keys, key)
	for i := range l.limits {
		limit := &l.limits[i]
		rule := &limit.rule
		if limit.scaling != nil {
			rule = limit.scaleNow(ctx, rule)
		}
		c.add(limit, rule, c.keys, cost)
	}
	return c
}

// asker is who a decision is for, should other limits have to decide it.
type asker struct {
	request keyfuncs.Request // or, of AllowKey:
	key     string
	cost    int64
}

// decide asks the store, and writes what comes of it to d, which knows its limiter.
func (l *Limiter) decide(ctx context.Context, c *call, who asker, d *Decision) {
	if err := l.take(ctx, c); err != nil {
		l.decideOutage(ctx, c, who, err, d)
		return
	}
	d.sumUp(ctx, c)
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
