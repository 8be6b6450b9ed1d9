package compose

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core"
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
	limiter, err := door.New(config, making{Live: true, Refused: l.refused})
	if err == nil {
		l.limiters = append(l.limiters, limiter)
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
// A configuration without limits ends its limiter: see [core.Limiter.Ended]. Live forgets it, so further calls have
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
	if err := door.Replace(l.limiters, configs, l.refused); err != nil {
		return err
	}
	l.limiters = slices.DeleteFunc(l.limiters, (*core.Limiter).Ended)
	return nil
}

// Refuse notes whether a change is refused at present, for core.Stats.Refused of all limiters, also of
// those to come. It changes nothing else.
func (l *Live) Refuse(refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = refused
	_ = door.Replace(l.limiters, nil, refused) // there is no configuration that could be wrong
}

// Validate returns the error that [core.New] would, but for conflicts with limits of other limiters: it
// tells neither the store nor observers of the configuration.
func Validate(config core.Config) error {
	_, err := door.New(config, making{Check: true})
	return err
}

// ForStore returns a limit that suits only some stores, such as that of a quota.Book: [core.New] asks suits
// for Config.Store, and for that of a fallback with the limit, nil if that is in memory.
func ForStore(limit core.Limit, suits func(core.Store) error) core.Limit {
	return door.ForStore(limit, suits)
}
