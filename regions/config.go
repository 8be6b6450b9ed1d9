package regions

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// Config sets up a [Store].
type Config struct {
	// Region is the name of this region in events, metrics and the page: 1 to 64 letters, digits and . _ -. Required.
	Region string

	// Regions is how many regions there are, 2 to 64, or the most that there may be. All regions must say the
	// same. Before a region is added, raise the number in the others. Required.
	Regions int

	// Floor is the part of each limit, in percent, that the regions together can grant without asking home: each has
	// an equal share of it. It is what a region still grants while it can't reach home, and below it a client costs no
	// message. What a region does not use of its floor nobody else can have. All regions must say the same. From 1 to
	// 90. Defaults to 10.
	Floor int64

	// Wait is how long a request waits at most for units that its region has asked home for. It never waits beyond
	// the deadline of its limiter (core.Config.Timeout), so a limiter with the default of 100ms hardly gets an answer
	// from another continent. At most 1m. Defaults to as long as the deadline lets it.
	Wait time.Duration

	// HomeTimeout is how long a question to home may take, in the background, from 10ms to 1m. Defaults to 2s.
	HomeTimeout time.Duration

	// MaxKeys bounds how many keys that are above their floor the process remembers, under all limits. With more,
	// those that were not asked for longest are forgotten, and the region is asked for their share again. From 1,000.
	// Defaults to 100,000.
	MaxKeys int
}

// maxRegions bounds Config.Regions.
const maxRegions = 64

// complete sets defaults and checks the rest.
func (c *Config) complete() error {
	if c.Floor == 0 {
		c.Floor = 10
	}
	if c.HomeTimeout == 0 {
		c.HomeTimeout = 2 * time.Second
	}
	if c.Wait == 0 {
		c.Wait = time.Minute
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = 100_000
	}
	return c.validate()
}

func (c *Config) validate() error {
	if !store.ValidName(c.Region) {
		return fmt.Errorf("weblimit: regions: Config.Region must be 1 to 64 letters, digits and . _ -, got %q", c.Region)
	}
	switch {
	case c.Regions < 2 || c.Regions > maxRegions:
		return fmt.Errorf("weblimit: regions: Config.Regions must be from 2 to %d, got %d", maxRegions, c.Regions)
	case c.Floor < 1 || c.Floor > 90:
		return fmt.Errorf("weblimit: regions: Config.Floor must be from 1 to 90 percent, got %d", c.Floor)
	case c.Wait < 0 || c.Wait > time.Minute:
		return fmt.Errorf("weblimit: regions: Config.Wait must be at most 1m, got %v", c.Wait)
	case c.HomeTimeout < 10*time.Millisecond || c.HomeTimeout > time.Minute:
		return fmt.Errorf("weblimit: regions: Config.HomeTimeout must be from 10ms to 1m, got %v", c.HomeTimeout)
	case c.MaxKeys < 1000:
		return fmt.Errorf("weblimit: regions: Config.MaxKeys must be at least 1000, got %d", c.MaxKeys)
	}
	return nil
}

// validStores checks the two stores.
func validStores(local, home store.Store) error {
	switch {
	case local == nil || home == nil:
		return errors.New("weblimit: regions: a store is nil")
	case isNil(local) || isNil(home):
		return fmt.Errorf("weblimit: regions: a store is a nil %T", nilOf(local, home))
	case local.Registry() == nil || home.Registry() == nil:
		return errors.New("weblimit: regions: the Registry of a store is nil; a wrapper returns that of the store in it")
	}
	return nil
}

// isNil reports whether an interface holds a nil pointer, whose methods would panic while serving.
func isNil(s store.Store) bool {
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// nilOf returns the first of the stores that is nil.
func nilOf(stores ...store.Store) store.Store {
	return stores[slices.IndexFunc(stores, isNil)]
}
