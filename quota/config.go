package quota

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// Config sets up a [Book].
type Config struct {
	// Store decides requests, as without a book: a redisstore.Store, or a memstore.Store for one
	// process. Required.
	Store store.Store

	// Limits are the names of the limits that are kept in the book, which must be calendar
	// limits. Defaults to all calendar limits.
	Limits []string

	// FlushEvery is how often what was used is written to the ledger, from 10ms to 1m. It is
	// also what can be lost, if the store and this process lose it at the same time. Defaults to 1s.
	FlushEvery time.Duration

	// Timeout is how long the ledger may take for a flush or to begin accounts, at least 10ms.
	// Requests wait no longer than their own limiter says. Defaults to 5s.
	Timeout time.Duration

	// MaxAccounts bounds the accounts that this process remembers: those that it has charged
	// lately, and while the ledger is away all that it has charged since. Each takes some 300
	// bytes. Beyond the bound, what was used waits in the store, and is looked for there when the ledger is back.
	// At least 1000. Defaults to 1,000,000.
	MaxAccounts int

	// Levels are the levels of notices, in percent of the units that a plan includes: 1 to
	// 1000, at most 64 of them. Defaults to 80, 90 and 100.
	Levels []int

	// Notices are the channels that this process delivers notices to. Defaults to none: the ledger
	// keeps notices, and other processes may deliver them.
	Notices []Channel

	// Exports are the receivers of usage that this process serves. Defaults to none.
	Exports []Export

	// StartWithoutLedger has Open return a book even if PostgreSQL does not answer, or is a standby that
	// takes no writes, so that an application can start while it is away. The tables are made as soon as it answers. Until then
	// it is as in any outage of the ledger. Defaults to false: Open fails.
	StartWithoutLedger bool

	// Schema is the name of the schema of the book's tables: 1 to 40 lower-case letters, digits
	// and underscores. Defaults to "weblimit".
	Schema string
}

// The defaults and bounds of Config.
const (
	defaultFlushEvery  = time.Second
	defaultTimeout     = 5 * time.Second
	defaultMaxAccounts = 1_000_000
	defaultSchema      = "weblimit"

	minTimeout     = 10 * time.Millisecond
	maxFlushEvery  = time.Minute
	minMaxAccounts = 1000
	maxLevel       = 1000
)

var (
	schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)
	limitName  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// complete sets defaults and checks everything.
func (c *Config) complete() error {
	if c.FlushEvery == 0 {
		c.FlushEvery = defaultFlushEvery
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.MaxAccounts == 0 {
		c.MaxAccounts = defaultMaxAccounts
	}
	if c.Schema == "" {
		c.Schema = defaultSchema
	}
	if c.Levels == nil {
		c.Levels = defaultLevels
	}
	c.Levels, c.Limits = slices.Clone(c.Levels), slices.Clone(c.Limits)
	slices.Sort(c.Levels)
	c.Levels = slices.Compact(c.Levels)
	switch {
	case c.Store == nil:
		return errors.New("weblimit: quota: Config.Store is missing")
	case c.Store.Registry() == nil:
		return errors.New("weblimit: quota: Config.Store: its Registry is nil; a wrapper returns that of the store in it")
	case c.FlushEvery < minTimeout || c.FlushEvery > maxFlushEvery:
		return fmt.Errorf("weblimit: quota: Config.FlushEvery must be from %v to %v, got %v", minTimeout, maxFlushEvery, c.FlushEvery)
	case c.Timeout < minTimeout || c.Timeout > store.MaxTimeout:
		return fmt.Errorf("weblimit: quota: Config.Timeout must be from %v to %v, got %v", minTimeout, store.MaxTimeout, c.Timeout)
	case c.MaxAccounts < minMaxAccounts:
		return fmt.Errorf("weblimit: quota: Config.MaxAccounts must be at least %d, got %d", minMaxAccounts, c.MaxAccounts)
	case !schemaName.MatchString(c.Schema):
		return fmt.Errorf("weblimit: quota: Config.Schema must be 1 to 40 lower-case letters, digits and underscores, got %q", c.Schema)
	case len(c.Levels) > maxLevels:
		return fmt.Errorf("weblimit: quota: Config.Levels has %d levels, the most is %d", len(c.Levels), maxLevels)
	}
	var err error
	if c.Notices, err = completeChannels(c.Notices); err != nil {
		return err
	}
	if c.Exports, err = completeExports(c.Exports, c.Limits); err != nil {
		return err
	}
	for _, level := range c.Levels {
		if level < 1 || level > maxLevel {
			return fmt.Errorf("weblimit: quota: Config.Levels: a level must be from 1 to %d percent, got %d", maxLevel, level)
		}
	}
	for _, name := range c.Limits {
		if !limitName.MatchString(name) {
			return fmt.Errorf("weblimit: quota: Config.Limits: a limit's name is 1 to 64 letters, digits and . _ -, got %q", name)
		}
	}
	return nil
}

// defaultLevels are the levels of notices, in percent of what a tenant's plan includes.
var defaultLevels = []int{80, 90, 100}

// maxLevels bounds the levels of a book.
const maxLevels = 64
