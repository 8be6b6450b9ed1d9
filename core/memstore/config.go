package memstore

import "fmt"

// DefaultMaxBuckets is how many buckets a [Store] holds by default.
const DefaultMaxBuckets = 1 << 20

// minBuckets is the smallest bound under which eviction still finds a bucket that
// matters little.
const minBuckets = 64

// Config sets up a [Store]. Its zero value is ready to use.
type Config struct {
	// MaxBuckets bounds the store's memory, at least 64. One bucket, for one key under
	// one limit, takes 48 bytes in a table that is between 7/10 and 7/8 full: 55 bytes a
	// bucket when the store is full, and at most 69 before.
	//
	// The entries of a sliding log or a concurrency limit count for the memory that they
	// take: four entries as one bucket, and the log itself as three entries. Its array
	// may have room for twice as many entries as it holds. A single log may exceed a
	// bound that is smaller than it. The mark of an operation that is charged once counts
	// as a bucket, and so does the penalty of a key that has exceeded its limit.
	//
	// Defaults to DefaultMaxBuckets.
	MaxBuckets int
}

// validate sets the defaults. It panics on a value that makes no sense.
func (c Config) validate() Config {
	if c.MaxBuckets == 0 {
		c.MaxBuckets = DefaultMaxBuckets
	}
	if c.MaxBuckets < minBuckets {
		panic(fmt.Sprintf("weblimit: memstore.New: Config.MaxBuckets must be at least %d, got %d", minBuckets, c.MaxBuckets))
	}
	return c
}
