package redisstore

import (
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
)

// NewAt returns a store that decides at the times of a test's clock instead of Redis's.
func NewAt(client redis.UniversalClient, clock func() int64, config ...Config) *Store {
	s := New(client, config...)
	s.clock, s.denials = clock, nil // the cache goes by the process's own clock
	s.serverClock.own = clock
	return s
}

// NewWithClocks is NewAt with another clock for the process.
func NewWithClocks(client redis.UniversalClient, server, process func() int64, config ...Config) *Store {
	s := NewAt(client, server, config...)
	s.serverClock.own = process
	return s
}

// SlotOf is the hash slot of a Redis key, to compare with a server's.
func SlotOf(key string) int { return hashSlotOfKey([]byte(key)) }

// mustRule returns the numbers of a limit that is known to be good.
func mustRule(l core.Limit) core.Rule {
	r, err := l.Rule()
	if err != nil {
		panic(err)
	}
	return r
}
