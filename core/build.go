package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/keyfuncs"
)

// newLimiter is New for all kinds of limiters.
func newLimiter(config Config, how making) (_ *Limiter, err error) {
	if how.Catalog && hasChoice(config.Limits) {
		return nil, errors.New("weblimit: a catalog has no choices: its entries say which limits are alternatives")
	}
	if config.Limits, err = flattenChoices(config.Limits); err != nil {
		return nil, err
	}
	if config.Fallback.Limits, err = flattenChoices(config.Fallback.Limits); err != nil {
		return nil, &store.ConfigError{Path: "Config.Fallback", Err: err}
	}
	if how.Keyless {
		if config.Limits, err = guardingAll(config.Limits); err != nil {
			return nil, err
		}
	}
	config.catalog = how.Catalog
	if how.Next != nil && config.Store != nil && config.Store.Registry().Root() != how.Next.shared.Registry {
		return nil, errors.New("weblimit: a catalog can't change its store")
	}
	decides, err := build(config, how.Next)
	if err != nil || how.Check {
		return nil, err
	}
	if err := decides.declare(how.Next); err != nil {
		return nil, err
	}
	if how.Remote != nil {
		decides.askRemotely(how.Remote)
	}
	l := decides
	if how.Live {
		l = liveFrom(decides, how.Refused)
	}
	decides.introduce(l)
	config.common.add(l)
	if !how.Live && !how.Catalog && how.Remote == nil { // these come with the names in requests
		l.advisor.Built()
	}
	return l, nil
}

// build makes a limiter that no store, observer or other limiter knows of yet. It goes on where
// before left off, unless that is nil.
func build(config Config, before *Limiter) (*Limiter, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	l := &Limiter{
		store:      config.Store,
		timeout:    config.Timeout,
		shared:     sharedBy(config.Store),
		limits:     make([]limit, len(config.Limits)),
		bypass:     slices.Clone(config.Bypass),
		details:    sortDetails(config.Details),
		missingKey: config.MissingKey,
		observers:  flatten(config.Observe),
		onWarning:  config.OnWarning,
		version:    config.Version,
	}
	l.advisor = newAdvisor(&config, l.shared, l.bypass)
	if l.timeout == 0 {
		l.timeout = store.DefaultTimeout
	}
	if config.common != nil {
		l.warned = config.common.warned
	} else {
		l.warned = sync.OnceValue(newWarned)
	}
	if before != nil {
		l.goOn(before)
	}
	for _, c := range config.Bypass {
		l.need("Config.Bypass", c.Needs())
	}
	if l.waitlist == nil {
		l.waitlist = newWaitlist(config.MaxWaiting, config.MaxWaitingPerKey)
	}
	if err := l.prepareAll(&config); err != nil {
		return nil, err
	}
	if n := checksOf(l.limits); n > store.MaxChecks && !config.catalog {
		return nil, fmt.Errorf("weblimit: Config.Limits counts for %d limits, with each OncePer and each Penalty for another: the most is %d", n, store.MaxChecks)
	}
	if err := l.prepareFallback(config.Fallback); err != nil {
		return nil, err
	}
	l.headers = newHeaderStyle(config.Headers, config.HeadersWhen, config.catalog, l.limits)
	l.advisor.Ready()
	return l, nil
}

// prepareAll makes the limits ready, and notes what their store is told of them.
func (l *Limiter) prepareAll(config *Config) error {
	all := make([]store.Declaration, len(config.Limits))
	names := make(map[string]bool, len(config.Limits))
	for i, from := range config.Limits {
		if err := l.prepare(&l.limits[i], from, max(config.Replicas, 1)); err != nil {
			return err
		}
		if err := from.suitsStore(config.Store); err != nil {
			return err
		}
		if err := l.limits[i].leaseOn(config.Store.Registry(), l.limits[:i]); err != nil {
			return err
		}
		all[i] = store.Declaration{Rule: l.limits[i].rule, Keys: l.limits[i].kind(), Named: from.named, Shadow: from.shadow, Regions: from.regions, Conceal: l.limits[i].conceal()}
		if names[all[i].Rule.Name] {
			return store.AtLimit(all[i].Rule.Name, errors.New("two limits of one limiter have this name; give each its own with Named"))
		}
		names[all[i].Rule.Name] = true
	}
	declareChoices(l.limits, all)
	l.declared = append(l.declared, declarations{config.Store.Registry(), all})
	if len(l.limits) == 1 && !config.catalog && l.limits[0].rule.Once == 0 && !l.limits[0].rule.Penalized() && l.limits[0].fair == nil && !l.follows {
		to := &l.direct
		if l.observers != nil {
			to = &l.observed
		}
		*to, _ = l.store.(*Memory)
	}
	return nil
}

// newAdvisor returns what gives advice on a limiter.
func newAdvisor(c *Config, s *shared, bypass []keyfuncs.Condition) *advice.Advisor {
	silence := make([]advice.Code, len(c.Silence))
	for i, code := range c.Silence {
		silence[i] = advice.Code(code)
	}
	return advice.New(advice.Settings{Logger: c.Logger, Silence: silence, Registry: s.Registry, Rivals: s.rivals, Bypass: bypass, Limits: len(c.Limits)})
}

// declare tells the stores of the limits, in place of those of before, unless that is nil.
func (l *Limiter) declare(before *Limiter) error {
	if before != nil {
		var stores exchanges
		stores.add(before, l)
		return stores.apply()
	}
	for i, d := range l.declared {
		if err := d.to.Register(d.all...); err != nil {
			if i > 0 { // the second is that of Config.Fallback
				err = &store.ConfigError{Path: "Config.Fallback", Err: err}
			}
			return err
		}
	}
	return nil
}

// introduce tells the observers of l that limiter has them.
func (l *Limiter) introduce(limiter *Limiter) {
	for _, observer := range l.observers {
		l.shared.observe(observer, l.advisor.Log)
		limiter.attach(observer, l.advisor.Log)
	}
}

// prepare makes a Limit ready.
func (l *Limiter) prepare(to *limit, from Limit, replicas int) (err error) {
	if to.rule, err = from.Rule(); err != nil {
		return err
	}
	if to.key, err = from.joinedKey(); err != nil {
		return err
	}
	to.local, to.replicas = share(&to.rule, replicas, from.least()), replicas
	to.cost, to.costBy, to.when, to.once = from.cost, from.costBy, from.when, from.once
	to.upToBurst, to.least = from.upToBurst, from.least()
	to.missing, to.outage, to.shadow, to.warnAt = from.missing, from.outage, from.shadow, from.warnAt
	to.regions, to.choice, to.spills = from.regions, from.inChoice, from.settings.has(setSpill)
	to.hidden, to.status = from.hidden, from.status
	to.variants, to.classes = new(variants), from.classes
	asked := to.key
	if from.fair != nil && asked.Kind() == keyfuncs.Everyone().Kind() { // then its clients are what advice is about
		asked = from.fair.By
	}
	to.advice = l.advisor.Add(from.facts(asked))
	if from.scale != nil {
		to.scaling = newScaling(from.scale, to.least, to.advice)
	}
	if from.warnAt == nil && from.numbers.Algorithm == store.Calendar && l.onWarning != nil {
		to.warnAt = calendarLevels
	}
	to.refundOn, to.estimate, to.wait, to.slow = from.refundOn, from.estimate, from.wait, from.slow
	if to.isFree(to.cost) {
		to.cost = 1
	}
	to.shows = from.costBy != nil || from.tiers != nil || from.classes != nil || len(from.when) > 0
	to.plain = !to.shows && to.scaling == nil && !to.upToBurst
	if from.fair != nil {
		to.fair = from.fair.ready()
	}
	l.needAll(from.name, to)
	l.readsOutcome = l.readsOutcome || to.refundOn != nil
	l.waits = l.waits || from.wait > 0 || to.slow.most > 0
	l.follows = l.follows || l.waits || to.reserves()
	if from.tiers != nil {
		to.tiers = &tiers{choose: from.tiers, base: &to.rule, cost: to.least, advice: to.advice}
	}
	return nil
}

// checksOf returns how many of store.MaxChecks a request can take.
func checksOf(limits []limit) int {
	n := len(limits)
	for i := range limits {
		if limits[i].rule.Once > 0 {
			n++
		}
		if limits[i].rule.Penalized() {
			n++
		}
	}
	return n
}

// kind says what the limit's keys, those of clients that divide it, and the keys of its operations, are made of.
func (l *limit) kind() string {
	kind := l.key.Kind()
	if l.fair != nil {
		kind += " divided "
		if l.fair.of != nil {
			kind += "by weight "
		}
		kind += "among " + l.fair.by.Kind()
		if l.fair.users {
			kind += " and " + l.fair.within.Kind()
		}
	}
	if l.rule.Once > 0 {
		kind += " once per " + l.once.Kind()
	}
	return kind
}

// conceal returns what finds the key of a client whose address or name is known, if keys are hashed under a secret.
func (l *limit) conceal() func(string) (string, bool) {
	of := l.key
	if l.fair != nil { // whose clients are looked up, and not the limit's one key
		of = l.fair.by
	}
	if !strings.Contains(of.Kind(), "secret(") {
		return nil
	}
	return of.Conceal
}

// New returns a limiter, or an error that says which part of the configuration can't work. It
// does not talk to the store, so it succeeds while the store is down.
func New(config Config) (*Limiter, error) { return newLimiter(config, making{}) }

// Must returns the limiter of [New], and panics if there was an error:
//
//	limiter := core.Must(core.New(core.Config{ … }))
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// ForLimits returns a limiter of these limits on a store, with the defaults for everything
// else, as the Limit functions of the adapters do. It panics where New returns an error.
func ForLimits(store Store, limits []Limit) *Limiter {
	return Must(New(Config{Store: store, Limits: limits}))
}

// goOn has l take over what outlives a configuration: waiting requests, warnings that were sent, and
// what was looked at for advice.
func (l *Limiter) goOn(before *Limiter) {
	l.waitlist, l.warned = before.waitlist, before.warned
	l.advisor.GoOn(before.advisor)
}

// liveFrom returns a limiter that decides by first until replace changes that.
func liveFrom(first *Limiter, refused bool) *Limiter {
	l := &Limiter{live: new(live)}
	l.live.current.Store(first)
	l.live.refused.Store(refused)
	return l
}
