package redisstore

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
)

// applications is the patience of stores outside of tests.
var applications = usualPatience

// Servers of tests share their processors with other tests and with compilers, and may stand still for
// seconds. Only tests of outages want a short time to be the end.
func init() { usualPatience = patience{time.Minute, time.Minute, time.Minute} }

// BeAsPatientAsUsual gives the store's own calls the time that they have outside of tests.
func (s *Store) BeAsPatientAsUsual() { s.patience = applications }

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
