package adapter

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
)

var (
	newLive  = seam.NewLive.(func(core.Config) (*core.Limiter, error))
	validate = seam.ValidateConfig.(func(core.Config) error)
	replace  = seam.Replace.(func([]*core.Limiter, []core.Config) error)
	ended    = seam.Ended.(func(*core.Limiter) bool)
	refuse   = seam.Refuse.(func(*core.Limiter, bool))
)

// Live makes limiters whose configurations change together while they serve, as those of a policy
// file do. Its zero value is ready to use, and it is safe for concurrent use.
type Live struct {
	mu       sync.Mutex
	limiters []*core.Limiter // Guarded by mu.
	refused  bool            // Guarded by mu.
}

// Limiter is [core.New] for a limiter that Replace can change. It lives as long as l.
func (l *Live) Limiter(config core.Config) (*core.Limiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, err := newLive(config)
	if err == nil {
		l.limiters = append(l.limiters, limiter)
		refuse(limiter, l.refused)
	}
	return limiter, err
}

// Replace gives all limiters other configurations, in the order in which Limiter has made them. If
// one of the configurations can't work, none changes. A request that has begun is decided and settled
// by the configuration that it began with. What clients have used under a limit stays used as long
// as the name of the limit stays; if its numbers change, the store converts what was used.
//
// A limiter keeps its store, and the observers that it had first are told of it once.
//
// A configuration without limits ends its limiter: see [Ended]. Live forgets it, so further calls have
// no configuration for it.
func (l *Live) Replace(configs ...core.Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(configs) != len(l.limiters) {
		return fmt.Errorf("weblimit: %d configurations for %d limiters", len(configs), len(l.limiters))
	}
	for i := range configs {
		if configs[i].Store == nil && len(configs[i].Limits) > 0 {
			return errors.New("weblimit: Config.Store is missing")
		}
	}
	if err := replace(l.limiters, configs); err != nil {
		return err
	}
	l.limiters = slices.DeleteFunc(l.limiters, Ended)
	return nil
}

// Ended reports whether the policy of a limiter was removed, for whoever asks a limiter again and again:
// it is to get another one, or to find that there is none; see [Settings.Follow]. A limiter that has ended
// still decides, by its last configuration, what was asked before.
func Ended(limiter *core.Limiter) bool { return ended(limiter) }

// Refuse notes whether a change is refused at present, for core.Stats.Refused of all limiters, also of
// those to come. It changes nothing else.
func (l *Live) Refuse(refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = refused
	for _, limiter := range l.limiters {
		refuse(limiter, refused)
	}
}

// Validate returns the error that [core.New] would, but for conflicts with limits of other limiters: it
// tells neither the store nor observers of the configuration.
func Validate(config core.Config) error { return validate(config) }
