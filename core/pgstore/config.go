package pgstore

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// Config holds the settings of a [Store]. Its zero value suits most users.
type Config struct {
	// Schema is the schema of the store's table and functions. Stores with different schemas
	// share nothing. It consists of lower-case letters, digits and underscores, and begins
	// with a letter; New panics otherwise. Defaults to DefaultSchema.
	Schema string

	// Connections is how many of the pool's connections the store uses at a time. While all
	// are in use, calls gather, and the next transaction decides them together. New panics
	// if it is negative. Defaults to half of the pool's, at least 1 and at most 4.
	Connections int

	// Timeout is how long a call may take whose context has no earlier deadline. The
	// contexts of limiters have one. It is from 1ms to store.MaxTimeout; New panics otherwise.
	// Defaults to DefaultTimeout.
	Timeout time.Duration
}

// Defaults of a [Config].
const (
	DefaultSchema  = "weblimit"
	DefaultTimeout = 5 * time.Second
)

const (
	mostConnections  = 4  // more rarely help: calls that wait share the next transaction
	longestSchema    = 63 // NAMEDATALEN-1
	mostJobs         = 128
	mostRecords      = 600  // of a flight; one call has at most store.MaxChecks
	mostWaiting      = 4096 // calls; more are refused
	mostChecks       = 128  // of an operation without results, at a time
	optimisticTrials = 2    // before records are locked
)

// complete returns the config with its defaults filled in, and an error if a value makes no sense.
func (c Config) complete(poolSize int32) (Config, error) {
	if c.Schema == "" {
		c.Schema = DefaultSchema
	}
	if c.Connections == 0 {
		c.Connections = min(max(int(poolSize)/2, 1), mostConnections)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	return c, c.check()
}

func (c Config) check() error {
	switch {
	case !validSchema(c.Schema):
		return fmt.Errorf("weblimit: pgstore.Config: Schema must be 1 to %d lower-case letters, digits and underscores, beginning with a letter, got %q", longestSchema, c.Schema)
	case c.Connections < 0:
		return fmt.Errorf("weblimit: pgstore.Config: Connections must not be negative, got %d", c.Connections)
	case c.Timeout < time.Millisecond || c.Timeout > store.MaxTimeout:
		return fmt.Errorf("weblimit: pgstore.Config: Timeout must be from 1ms to %v, got %v", store.MaxTimeout, c.Timeout)
	}
	return nil
}

// validSchema reports whether a name needs no quotes, so that it can't be anything but a name.
func validSchema(s string) bool {
	if s == "" || len(s) > longestSchema || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
