package core

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// Rule checks the limit and returns its numbers, as stores want them. The error
// names the limit and what is wrong with it.
func (l Limit) Rule() (Rule, error) {
	if err := l.validate(); err != nil {
		return Rule{}, fmt.Errorf("weblimit: limit %q: %w", l.name, err)
	}
	n := l.numbers.Numbers
	if n.Algorithm == store.TokenBucket { // others ask again
		n.Wait = l.wait
	}
	r, err := store.NewRule(l.name, n)
	if err != nil {
		return Rule{}, err
	}
	if l.cost > r.Burst {
		return Rule{}, fmt.Errorf("weblimit: limit %q: cost %d can never fit: the limit holds at most %d", l.name, l.cost, r.Burst)
	}
	if l.reserve != nil {
		switch lower := l.reserve.part(r.Burst); {
		case lower < 1:
			return Rule{}, fmt.Errorf("weblimit: limit %q: Reserve leaves nothing of %d units to requests of the lower class", l.name, r.Burst)
		case l.cost > lower:
			return Rule{}, fmt.Errorf("weblimit: limit %q: cost %d can never fit in the lower class: Reserve leaves it %d units", l.name, l.cost, lower)
		}
	}
	return r, nil
}

func (l *Limit) validate() error {
	n := &l.numbers
	switch {
	case n.Algorithm == 0:
		return errors.New("a limit is made by Per, PerSecond, PerMinute, PerHour, PerDay or Concurrent")
	case !validName(l.name):
		return errors.New("name must be 1 to 64 of A-Z a-z 0-9 . _ -")
	case n.concurrent && n.Algorithm != store.Concurrency:
		return fmt.Errorf("a limit of requests at the same time has no other algorithm, got a %v", n.Algorithm)
	case n.concurrent && (n.hasBurst || n.Jitter):
		return errors.New("a limit of requests at the same time has neither Burst nor Jitter")
	case n.hasLease && !n.concurrent:
		return fmt.Errorf("Lease belongs to a limit of requests at the same time, not to a %v", n.Algorithm)
	case n.hasBurst && n.Algorithm != store.TokenBucket:
		return fmt.Errorf("Burst belongs to a token bucket, not to a %v", n.Algorithm)
	case n.hasBurst && n.Burst == 0 && n.Quota > 0: // else a default
		return errors.New("burst must be at least 1, got 0")
	case n.hasSoft && n.Soft == 0:
		return fmt.Errorf("the soft limit must be at least 1 and below the %d units of the limit itself, got 0", cmp.Or(n.Burst, n.Quota))
	case n.hasPenalty && n.Block.After == 0:
		return errors.New("Block.After must be from 1 to 2^31, got 0")
	case l.cost < 1:
		return fmt.Errorf("cost must be at least 1, got %d", l.cost)
	case !l.outage.valid():
		return fmt.Errorf("unknown outage policy %d", l.outage)
	case l.wait < 0 || l.wait > maxWait || l.wait%time.Microsecond != 0:
		return fmt.Errorf("a request may wait whole microseconds up to %v, not %v", maxWait, l.wait)
	case n.hasPenalty && l.wait > 0 && n.Algorithm != store.TokenBucket:
		return fmt.Errorf("Penalty does not go with Wait under a %v: a request that waits is asked for again, and each denial would count", n.Algorithm)
	case !l.missing.valid():
		return fmt.Errorf("unknown policy for missing keys %d", l.missing)
	}
	if err := l.slow.validate(); err != nil {
		return err
	}
	for _, level := range l.warnAt {
		if !(level > 0 && level <= 1) { // NaN, too
			return fmt.Errorf("a warning level is above 0 and at most 1, got %v", level)
		}
	}
	if l.reserve != nil {
		if err := l.reserve.validate(); err != nil {
			return err
		}
		if l.wait > 0 && n.Algorithm == store.TokenBucket {
			return errors.New("a token bucket has either Reserve or a queue (Wait, LeakyBucket): who queues would be in front of those for whom a part is kept")
		}
	}
	if l.hasOnce && l.once.Err() != nil {
		return fmt.Errorf("OncePer: %s", unprefixed(l.once.Err()))
	}
	if n.hasRepeats && !l.hasOnce && n.Once == 0 {
		return errors.New("Repeats belongs to OncePer: it says how many repeats of an operation are free")
	}
	if n.hasRepeats && l.hasOnce && n.Repeats == 0 { // else a default
		return errors.New("free repeats must be from 1 to 1000, got 0")
	}
	if l.hasOnce && n.Once == 0 { // else no OncePer
		return errors.New("OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got 0s")
	}
	for _, c := range l.when {
		if err := c.Err(); err != nil {
			return errors.New(unprefixed(err))
		}
	}
	return nil
}

func validName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// unprefixed returns an error of package keyfuncs for use behind a prefix.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "weblimit: ") }
