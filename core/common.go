package core

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/memstore"
)

// common is what the limiters share that were made from one configuration, beside its fields.
// A nil common is that of a single limiter.
type common struct {
	warned func() *Memory // which warnings were sent; made when first needed

	mu      sync.Mutex
	waiting []*Limiter // that let requests wait, or may later. Guarded by mu.
}

// prepare makes a configuration ready for several limiters, of which each adds its limits.
func (c *Config) prepare() error {
	if len(c.Limits) > 0 {
		return errors.New("weblimit: Config.Limits must be empty here: these settings are for several limiters, and the limits of each go to its Limit")
	}
	if err := c.validateSettings(); err != nil {
		return err
	}
	c.Bypass, c.Silence, c.Details = slices.Clone(c.Bypass), slices.Clone(c.Silence), maps.Clone(c.Details)
	c.Fallback.Limits = slices.Clone(c.Fallback.Limits)
	c.common = &common{warned: sync.OnceValue(newWarned)}
	return nil
}

func newWarned() *Memory { return memstore.New(memstore.Config{MaxBuckets: maxWarned}) }

// add notes a new limiter, for drain.
func (c *common) add(l *Limiter) {
	if c == nil || l.live == nil && !l.waits {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(slices.DeleteFunc(c.waiting, (*Limiter).over), l)
}

// over reports whether a limiter has ended, and nobody waits in it.
func (l *Limiter) over() bool {
	return l.Ended() && l.now().waitlist.waiting() == 0
}

// drain is Limiter.Drain for all limiters of a shared configuration.
func (c *Config) drain(ctx context.Context) error {
	c.common.mu.Lock()
	waiting := slices.Clone(c.common.waiting)
	c.common.mu.Unlock()
	for _, l := range waiting {
		l.now().waitlist.expireAll()
	}
	if err := sharedBy(c.Store).settler.drain(ctx); err != nil {
		return err
	}
	if c.Fallback.Store == nil {
		return nil
	}
	return sharedBy(c.Fallback.Store).settler.drain(ctx)
}
