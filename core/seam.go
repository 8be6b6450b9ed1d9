package core

import (
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

// What package core/adapter offers to adapters, and core does not export.
func init() {
	seam.Decide = (*Limiter).decideRequest
	seam.NewCall = func() any { return new(call) }
	seam.DecideIn = (*Limiter).decideIn
	seam.SetHeaders = (*Decision).setHeaders
	seam.Limits = func(l *Limiter) int { return len(l.now().limits) }
	seam.InProcess = func(l *Limiter) bool { return l.now().shared.InProcess() }
	seam.Settles = func(l *Limiter) bool { return l.live != nil || l.follows }
	seam.Reserved = func(d *Decision) bool { return d.held != nil }
	seam.ReadsOutcome = func(d *Decision) bool { return d.held != nil && d.limiter.readsOutcome }
	seam.Reservation = func(d *Decision) any {
		if d.held == nil {
			return nil
		}
		return d.held
	}
	seam.Begin = func(l *Load, r keyfuncs.Request) seam.Work { return l.beginRequest(r) }
	seam.Suits = (*Limiter).suits
	seam.Prepare = (*Config).prepare
	seam.Drain = (*Config).drain
	seam.Guard = (*Config).guard
	seam.DecideGuard = (*Limiter).decideGuard
	seam.Live = func(l *Limiter) bool { return l.live != nil }
	seam.NewLive = newLive
	seam.Replace = replace
	seam.Ended = func(l *Limiter) bool { return l.live != nil && l.live.ended.Load() }
	seam.Refuse = func(l *Limiter, refused bool) { l.live.refused.Store(refused) }
	seam.LetEnd = func(c *Config) { c.mayEnd = true }
	seam.MayEnd = func(c Config) bool { return c.mayEnd }
	seam.ValidateConfig = func(c Config) error {
		_, err := build(c, nil)
		return err
	}
	seam.Together, seam.PeekTogether, seam.SettleHeld = decideTogether, peekTogether, settleHeld
	seam.NewRemote = newRemote
	seam.NewCatalog = newCatalog
	seam.DecideSome = (*Limiter).decideSome
	seam.GiveBackSome = (*Limiter).giveBackSome
	seam.ForStore = func(l Limit, suits func(Store) error) Limit {
		l.suits = suits
		return l
	}
	seam.LowerRule = Limit.lowerRule
	seam.Local = func(s Store) Store { return sharedBy(s).local }
}
