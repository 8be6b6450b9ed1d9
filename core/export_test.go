package core

import (
	"time"

	"github.com/weblimit/weblimit/internal/advice"
)

// ResetAdvice makes the process forget which advice was logged. Tests that call
// it are not parallel: those that are wait until they are done.
func ResetAdvice() { advice.Given.Clear() }

// AllHeaders are all dialects.
const AllHeaders = allHeaders

// MaxWarned bounds what a limiter remembers of warnings.
const MaxWarned = maxWarned

// Warned returns of how many events the limiter remembers that they were sent.
func (l *Limiter) Warned() int { return l.warned().Len() }

// KnownTiers returns how many tiers' rules the limiter's first limit has kept.
func (l *Limiter) KnownTiers() int {
	known := l.limits[0].tiers.known.Load()
	if known == nil {
		return 0
	}
	return len(*known)
}

// AdviceLooks is how many requests of a limiter are looked at.
const AdviceLooks = advice.Looks

// MaxTiers is how many tiers' rules a limit keeps.
const MaxTiers = maxTiers

// Reserved reports whether something was charged that may still change.
func (d *Decision) Reserved() bool { return d.held != nil }

// Owes reports whether any key is noted of which the store may not know what was granted locally.
func (l *Limiter) Owes() bool { return l.shared.untold.any() }

// Untold shows its methods to tests.
type Untold struct{ untold }

func (u *Untold) Any() bool                       { return u.any() }
func (u *Untold) Has(rule *Rule, key []byte) bool { return u.has(rule, key) }

func (u *Untold) Add(rule *Rule, key []byte, now int64, lasts time.Duration) {
	u.add(rule, key, now, lasts)
}

func (u *Untold) Tell(rule *Rule, key []byte, now int64, read func() int64) {
	u.tell(rule, key, now, read)
}

// UntoldKeys is how many keys can be noted if they are spread evenly.
const UntoldKeys = untoldKeys * untoldParts

// The kinds of advice by name.
const (
	AdviceEviction  = Advice(advice.Eviction)
	AdviceExempt    = Advice(advice.Exempt)
	AdviceForwarded = Advice(advice.Forwarded)
	AdviceFramework = Advice(advice.Framework)
	AdviceInHandler = Advice(advice.InHandler)
	AdviceKeyless   = Advice(advice.Keyless)
	AdviceNeverFits = Advice(advice.NeverFits)
	AdviceNoClient  = Advice(advice.NoClient)
	AdviceNoRoute   = Advice(advice.NoRoute)
	AdviceObserver  = Advice(advice.Observer)
	AdviceRivals    = Advice(advice.Rival)
	AdviceRoute     = Advice(advice.Route)
	AdviceScale     = Advice(advice.Scale)
	AdviceTier      = Advice(advice.Tier)
	AdviceTwice     = Advice(advice.Twice)
	AdviceUnguarded = Advice(advice.Unguarded)
	AdviceUnlisted  = Advice(advice.Unlisted)
)

// Lines returns how many keys have waiting requests.
func (l *Limiter) Lines() int {
	l.waitlist.mu.Lock()
	defer l.waitlist.mu.Unlock()
	return len(l.waitlist.keys)
}

// Resting returns how many clients in lines are not asked for.
func (l *Limiter) Resting() (n int) {
	l.waitlist.mu.Lock()
	defer l.waitlist.mu.Unlock()
	for _, q := range l.waitlist.keys {
		if q.line != nil {
			n += len(q.line.resting)
		}
	}
	return n
}

// Asking returns how many requests in lines ask the store.
func (l *Limiter) Asking() (n int64) {
	l.waitlist.mu.Lock()
	defer l.waitlist.mu.Unlock()
	for _, q := range l.waitlist.keys {
		if q.line != nil {
			n += q.line.asking + q.line.charging
		}
	}
	return n
}
