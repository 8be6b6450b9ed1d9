package core

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// Rule checks the limit and returns its name and numbers for a [Store]. The error names
// the limit and says what is wrong with it. Limiters call it; your own code needs it
// only to talk to a store directly, or to check a limit before it is used.
func (l Limit) Rule() (Rule, error) {
	if l.choice != nil {
		return Rule{}, errors.New("weblimit: First is a choice of limits, and has no rule of its own")
	}
	if err := l.validate(); err != nil {
		return Rule{}, store.AtLimit(l.name, err)
	}
	n := l.numbers.Numbers
	if n.Algorithm == store.TokenBucket && l.fair == nil { // under others, waiting requests ask again
		n.Wait = l.wait
	}
	if l.fair != nil && n.Algorithm != store.Concurrency {
		n.Divided, n.Guaranteed = true, l.fair.Guaranteed
	}
	r, err := store.NewRule(l.name, n)
	if err != nil {
		return Rule{}, err
	}
	if l.least() > r.Burst {
		return Rule{}, store.AtLimit(l.name, fmt.Errorf("cost %d can never fit: the limit holds at most %d", l.cost, r.Burst))
	}
	if l.classes != nil {
		if err := l.classes.fits(r.Burst, l.cost, l.least()); err != nil {
			return Rule{}, store.AtLimit(l.name, err)
		}
	}
	return r, nil
}

// least returns how many units the limit has to hold in each of its forms, since a request can cost as much: none of
// those of an estimate that is lowered to what there is.
func (l *Limit) least() int64 {
	if l.upToBurst {
		return 1
	}
	return l.cost
}

// forStore has whoever makes a limiter of the limit ask whether a store suits it.
func (l Limit) forStore(suits func(Store) error) Limit {
	l.suits = suits
	return l
}

// suitsStore returns an error if the limit belongs to another store, such as that of a book.
func (l *Limit) suitsStore(s Store) error {
	if l.suits == nil {
		return nil
	}
	if err := l.suits(s); err != nil {
		return store.AtLimit(l.name, err)
	}
	return nil
}

// validate checks one thing after the other, in the order in which users are told.
func (l *Limit) validate() error {
	if err := l.validateNumbers(); err != nil {
		return err
	}
	if err := l.validateSettings(); err != nil {
		return err
	}
	if err := l.validateOnce(); err != nil {
		return err
	}
	if err := l.validateRegions(); err != nil {
		return err
	}
	if err := l.validateFair(); err != nil {
		return err
	}
	for _, c := range l.when {
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

// validateNumbers checks the name, and that the numbers belong to the algorithm.
func (l *Limit) validateNumbers() error {
	n := &l.numbers
	switch {
	case n.Algorithm == 0:
		return errors.New("a limit starts with Per, PerSecond, PerMinute, PerHour, PerDay, PerWeek, PerMonth or Concurrent")
	case !store.ValidName(l.name):
		return errors.New("the name must be 1 to 64 of A-Z a-z 0-9 . _ -")
	case n.concurrent && n.Algorithm != store.Concurrency:
		return fmt.Errorf("a concurrency limit can have no other algorithm, got a %v", n.Algorithm)
	case n.concurrent && (n.hasBurst || n.Jitter):
		return errors.New("a concurrency limit can have neither Burst nor Jitter")
	case n.other != 0:
		return fmt.Errorf("a limit has one algorithm, got a %v and a %v; for both, make two limits", n.other, n.Algorithm)
	case l.settings.has(setCost|setCostBy) && l.estimate:
		return errors.New("a limit has either a cost (Cost, CostBy) or an estimate of it (Estimate, EstimateBy), got both")
	case l.upToBurst && !l.estimate:
		return errors.New("UpToBurst belongs to an estimate (Estimate, EstimateBy): a cost that is known can't be less than it is")
	case n.hasLease && !n.concurrent:
		return fmt.Errorf("Lease belongs to a concurrency limit, not to a %v", n.Algorithm)
	case n.hasBurst && n.Algorithm != store.TokenBucket:
		return fmt.Errorf("Burst belongs to a token bucket, not to a %v", n.Algorithm)
	case n.hasBurst && n.Burst == 0 && n.Quota > 0: // when not set it is the quota
		return errors.New("burst must be at least 1, got 0")
	case n.hasSoft && n.Soft == 0:
		return fmt.Errorf("the soft limit must be at least 1 and below the %d units of the limit itself, got 0", cmp.Or(n.Burst, n.Quota))
	case n.hasPenalty && n.Block.After == 0:
		return errors.New("Block.After must be from 1 to 2^31, got 0")
	}
	return nil
}

// validateSettings checks what is decided beside the numbers, and what can't go together.
func (l *Limit) validateSettings() error {
	n := &l.numbers
	switch {
	case l.cost < 1:
		return fmt.Errorf("cost must be at least 1, got %d", l.cost)
	case !l.outage.valid():
		return fmt.Errorf("unknown outage action %d", l.outage)
	case l.wait < 0 || l.wait > maxWait || l.wait%time.Microsecond != 0:
		return fmt.Errorf("the wait must be from 0 to %v, in whole microseconds, got %v", maxWait, l.wait)
	case n.hasPenalty && l.wait > 0 && n.Algorithm != store.TokenBucket:
		return errors.New("Penalty and Wait can be combined on a token bucket only: under other algorithms a waiting request asks again and again, and each denial would count")
	case !l.missing.valid():
		return fmt.Errorf("unknown policy for missing keys %d", l.missing)
	}
	if err := cmp.Or(l.settings.validate(), l.validateStatus()); err != nil {
		return err
	}
	if err := l.slow.validate(); err != nil {
		return err
	}
	for _, level := range l.warnAt {
		if !(level > 0 && level <= 1) { // NaN, too
			return fmt.Errorf("a warning level must be above 0 and at most 1, got %v", level)
		}
	}
	if l.classes != nil {
		if err := l.classes.validate(); err != nil {
			return err
		}
		if l.wait > 0 && n.Algorithm == store.TokenBucket && l.fair == nil {
			return errors.New("a token bucket has either classes (KeepFree, Classes) or a queue (Wait, LeakyBucket): queued requests would be in front of those that it keeps room for")
		}
	}
	return nil
}

// validateOnce checks OncePer and Repeats.
func (l *Limit) validateOnce() error {
	n := &l.numbers
	if l.hasOnce && l.once.Err() != nil {
		return &store.ConfigError{Path: "OncePer", Err: l.once.Err()}
	}
	if n.hasRepeats && !l.hasOnce && n.Once == 0 {
		return errors.New("Repeats belongs to OncePer: it sets how many repeats of an operation are free")
	}
	if n.hasRepeats && l.hasOnce && n.Repeats == 0 { // when not set it is the default
		return errors.New("free repeats must be from 1 to 1000, got 0")
	}
	if l.hasOnce && n.Once == 0 { // to a store, 0 means no OncePer
		return errors.New("OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got 0s")
	}
	return nil
}
